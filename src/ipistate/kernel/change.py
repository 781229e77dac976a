"""One operation of JSON Patch (RFC 6902), for programs and for people."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

import attrs

from ipistate.errors import PREVIEW_LIMIT, json_path
from ipistate.kernel.alignment import first_difference
from ipistate.kernel.codec import encode
from ipistate.kernel.limits import Path
from ipistate.kernel.summaries import Representation, summarized, visible
from ipistate.kernel.values import JsonObject, JsonValue, trusted_object


Op: TypeAlias = Literal["add", "remove", "replace"]

_BEFORE: Final = 20
"""Characters that are shown before the first difference of two long texts."""

_SIGNS: Final = {"add": "+", "remove": "-", "replace": "~"}


@attrs.frozen
class Change:
    """One operation of JSON Patch (RFC 6902), and the value that it removes."""

    op: Op
    path: Path
    """Names and indices; ``errors.json_path`` writes them for people."""
    value: JsonValue = None
    """The new value; None for ``remove``."""
    old: JsonValue = None
    """The value that was there; None for ``add``."""

    __repr__: ClassVar[Representation] = summarized()

    @property
    def pointer(self) -> str:
        """The path as a JSON Pointer (RFC 6901)."""
        steps = (str(step).replace("~", "~0").replace("/", "~1") for step in self.path)
        return "".join(f"/{step}" for step in steps)

    def to_document(self) -> JsonObject:
        """Return the operation as RFC 6902 writes it."""
        members: dict[str, JsonValue] = {"op": self.op, "path": self.pointer}
        if self.op != "remove":
            members["value"] = self.value
        return trusted_object(members)

    @property
    def texts(self) -> tuple[str, str]:
        """The old and the new value as bounded JSON text; empty where there is none.

        Two long texts are shown from about their first difference on.
        """
        start = _beginning(self.old, self.value)
        old = "" if self.op == "add" else _shown(self.old, start)
        return old, "" if self.op == "remove" else _shown(self.value, start)

    def __str__(self) -> str:
        where = f"{_SIGNS[self.op]} {json_path(self.path)}"
        return f"{where}: {' -> '.join(filter(None, self.texts))}"


def _beginning(old: JsonValue, new: JsonValue) -> int:
    # Where to begin to show two long texts, so that the difference is visible.
    if not isinstance(old, str) or not isinstance(new, str):
        return 0
    first = first_difference(old, new)
    return first - _BEFORE if first > PREVIEW_LIMIT // 2 else 0


def _shown(value: JsonValue, start: int = 0) -> str:
    head = "…" if start else ""
    if isinstance(value, str):
        more = "…" if len(value) > start + PREVIEW_LIMIT else ""
        text = encode(value[start : start + PREVIEW_LIMIT]).decode()
    else:
        whole = encode(value).decode()
        text, more = whole[:PREVIEW_LIMIT], "…" if len(whole) > PREVIEW_LIMIT else ""
    return head + visible(text) + more
