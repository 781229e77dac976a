"""One tree of errors, and who is meant to see which.

* A *model* sees none of them: what a tool refuses is text in ``Transition.output``.
* A *caller* (a library user, the client of a server) sees ``DecodeError``,
  ``EncodeError`` and ``SchemaError``: the data is wrong, nothing has changed.
* An *operator* sees ``CheckpointError``: a directory or a control call is refused.

Each error carries a stable ``code`` and survives pickling, so that a worker process can
hand it to its parent. An error about data also says where: a JSONPath.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self

import attrs


if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_PROBLEMS: Final = 100
"""Findings about one document; a search for them stops there."""

PREVIEW_LIMIT = 60
_PLAIN_NAME_LIMIT = 80


def json_path(segments: Iterable[str | int]) -> str:
    """Write a JSONPath such as ``$.patients["P-1"].conditions[0]``."""
    return "$" + "".join(_segment(segment) for segment in segments)


def _segment(segment: str | int) -> str:
    if isinstance(segment, int):
        return f"[{segment}]"
    if segment.isascii() and segment.isidentifier():
        return f".{segment[:_PLAIN_NAME_LIMIT]}"
    quoted = ascii(segment[:_PLAIN_NAME_LIMIT])[1:-1].replace('"', '\\"')
    return f'["{quoted}"]'


def preview(value: Any) -> str:
    """Show a value's type and the beginning of its text, in bounded space."""
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        digits = value.bit_length() * 0.30103
        return repr(value) if digits < PREVIEW_LIMIT else f"int of ~{digits:.0f} digits"
    if isinstance(value, str | bytes):
        more = "…" if len(value) > PREVIEW_LIMIT else ""
        return ascii(value[:PREVIEW_LIMIT]) + more
    # Our containers go by their base's name, as in the replies that models read.
    name = {"JsonObject": "dict", "JsonArray": "list"}.get(kind := type(value).__name__)
    return f"{name or kind} of {len(value)}" if hasattr(value, "__len__") else kind


class IpiStateError(Exception):
    """Base of every error this package raises on purpose."""

    code: str
    """Stable machine-readable name of the cause."""
    preview: str | None
    """Bounded beginning of the offending value, never the value itself."""

    def __init__(self, code: str, message: str, preview: str | None = None) -> None:
        super().__init__(code, message, preview)
        self.code = code
        self.message = message
        self.preview = preview

    def __str__(self) -> str:
        shown = "" if self.preview is None else f" ({self.preview})"
        return f"{self.message}{shown} [{self.code}]"


class DataError(IpiStateError):
    """Something is wrong at one place of a document."""

    path: str
    """JSONPath of the offending value; ``$`` is the whole document."""

    def __init__(
        self, code: str, message: str, path: str = "$", preview: str | None = None
    ) -> None:
        super().__init__(code, message, preview)
        self.args: tuple[Any, ...] = (code, message, path, preview)
        self.path = path

    def below(self, *segments: str | int) -> Self:
        """Return the same error for a document that holds this one at a path."""
        path = json_path(segments) + self.path[1:]
        return type(self)(self.code, self.message, path, self.preview)

    def __str__(self) -> str:
        return f"{self.path}: {super().__str__()}"


class DecodeError(DataError, ValueError):
    """Bytes or text that are not acceptable JSON."""


class BottomlessError(DecodeError):
    """JSON text whose nesting no parser follows to its end."""


class EncodeError(DataError, ValueError):
    """A Python value that JSON cannot carry."""


class ImmutableError(IpiStateError, TypeError):
    """An attempt to change a frozen JSON container in place."""


class EnvironmentVariableError(IpiStateError):
    """A variable of the environment cannot be used: it has to be changed or unset."""


@attrs.frozen
class Problem:
    """One finding about a document: what is wrong, and where."""

    code: str
    path: str
    message: str
    preview: str | None = None


class SchemaError(DataError, ValueError):
    """JSON of the wrong shape; carries the first ``MAX_PROBLEMS`` problems found."""

    problems: tuple[Problem, ...]

    def __init__(
        self,
        code: str,
        message: str,
        path: str = "$",
        preview: str | None = None,
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(code, message, path, preview)
        self.problems = problems or (Problem(code, path, message, preview),)
        self.args: tuple[Any, ...] = (code, message, path, preview, self.problems)

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        """Build one error from several problems; the first one gives it its name.

        No more than ``MAX_PROBLEMS`` are taken from an iterator.
        """
        found = tuple(islice(problems, MAX_PROBLEMS))
        first = found[0]
        return cls(first.code, first.message, first.path, first.preview, found)

    @classmethod
    def raise_for(cls, problems: Iterable[Problem]) -> None:
        """Raise one error for these problems if there are any.

        Raises:
            SchemaError: As ``of`` makes it.
        """
        if found := tuple(islice(problems, MAX_PROBLEMS)):
            raise cls.of(found) from None

    def below(self, *segments: str | int) -> Self:
        """Return the same error, with all its problems, for a document around this one."""
        outer = json_path(segments)
        return self.of(
            attrs.evolve(problem, path=outer + problem.path[1:])
            for problem in self.problems
        )

    def __str__(self) -> str:
        first = super().__str__()
        others = len(self.problems) - 1
        return f"{first} and {others} more" if others else first


class CheckpointError(IpiStateError):
    """A checkpoint directory or operation is refused (docs/reference/control-plane.md, appendix B)."""
