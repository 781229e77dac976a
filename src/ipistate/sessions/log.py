"""The wire form of a session with its log: version 2 of the state.

It holds the seed, the calls with what each answered, and the world now. The worlds
between are not stored: executing the log again gives them, and proves it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.errors import DataError, SchemaError, json_path, preview
from ipistate.kernel import (
    EMPTY_ARRAY,
    Environment,
    JsonObject,
    MigrationChain,
    identical,
    is_array,
    is_object,
    refuse,
    structure,
    trusted_array,
    trusted_object,
    unstructure,
    whole_text,
)
from ipistate.sessions.session import Session, Step, execute
from ipistate.sessions.state import IPICheckpointState
from ipistate.tools import Tool, ToolCall, ToolError, UnknownTool


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.kernel import Adopt


def _with_log(document: JsonObject) -> JsonObject:
    state = IPICheckpointState.from_document(document)
    return trusted_object(
        {
            "schema_version": 2,
            "environment": state.environment.document,
            "seed": None,
            "log": EMPTY_ARRAY,
        }
    )


LOG_VERSIONS: Final = MigrationChain(newest=2, steps=MappingProxyType({1: _with_log}))
"""The versions of the state, with a log from version 2 on."""

_PROVEN: Final = ("output", "key", "error")
"""What executing a call again has to give."""


def written_error(error: ToolError | None) -> ToolError | None:
    """Return the error of a step as texts have it.

    The reply of an unknown tool says it all, so texts have no error of one.
    """
    return None if isinstance(error, UnknownTool) else error


@attrs.frozen(kw_only=True)
class RecordedCall:
    """One call of a log as it is written."""

    name: str
    arguments: JsonObject
    output: str
    error: ToolError | None
    key: str | None

    @classmethod
    def of(cls, step: Step) -> RecordedCall:
        """Record a step without its world.

        Storage joins the halves of a character that are adjacent; so does this.
        """
        error = written_error(step.error)
        return cls(
            name=whole_text(step.call.name),
            arguments=step.call.arguments,
            output=whole_text(step.output),
            error=error
            and ToolError(whole_text(error.type), whole_text(error.message)),
            key=None if step.key is None else whole_text(step.key),
        )


def _check_seed(
    session: RecordedSession, field: attrs.Attribute[Any], seed: Environment | None
) -> None:
    # One value has one text: a session whose world is as it began has no seed.
    if seed is not None and identical(seed.document, session.environment.document):
        message = "a seed that is the environment itself is written as null"
        raise refuse("redundant_seed", message, seed.document, field)


@attrs.frozen(kw_only=True)
class RecordedSession:
    """A session as it is written, whether or not its log can be executed."""

    schema_version: int = LOG_VERSIONS.newest
    environment: Environment
    seed: Environment | None = attrs.field(validator=_check_seed)
    """None if the world now is the seed, too."""
    log: tuple[RecordedCall, ...]

    @classmethod
    def of(cls, session: Session) -> RecordedSession:
        """Record a session, sharing its seed and its world now."""
        same = identical(session.seed.document, session.environment.document)
        return cls(
            environment=session.environment,
            seed=None if same else session.seed,
            log=tuple(map(RecordedCall.of, session.log)),
        )

    @classmethod
    def from_tree(cls, tree: Any, adopt: Adopt) -> RecordedSession:
        """Read a session of any version from a parsed tree (see ``decode_as``).

        Raises:
            SchemaError: It is not a session; ``problems`` lists every reason.
        """
        if not is_object(tree):
            shown = preview(tree)
            raise SchemaError("wrong_type", "a session is an object", preview=shown)
        problem = LOG_VERSIONS.problem_of(tree)
        if problem is not None and problem.code != "wrong_type":
            raise SchemaError.of([problem])
        kept = {name: _adopted(name, part, adopt) for name, part in tree.items()}
        if problem is None and tree["schema_version"] < LOG_VERSIONS.newest:
            kept = LOG_VERSIONS.upgrade(trusted_object(kept))
        return structure(kept, cls)

    def to_document(self) -> JsonObject:
        """Return the session as a JSON object of version 2 that shares its worlds."""
        seed = None if self.seed is None else self.seed.document
        # A depth limit counts for each world and each arguments alone, hence no check.
        return trusted_object(
            {
                "schema_version": self.schema_version,
                "environment": self.environment.document,
                "seed": seed,
                "log": trusted_array(map(unstructure, self.log)),
            }
        )

    def executed(self, tools: Mapping[str, Tool]) -> Session:
        """Execute the log on the seed again.

        Raises:
            SchemaError: ``log_not_reproducible``, ``repeated_key``.
        """
        seed = self.environment if self.seed is None else self.seed
        world, steps = seed, list[Step]()
        _check_keys(self.log)
        for position, recorded in enumerate(self.log):
            call = ToolCall(recorded.name, recorded.arguments)
            step = execute(world, call, recorded.key, tools=tools)
            _compare(recorded, RecordedCall.of(step), position)
            steps.append(step)
            world = step.environment
        if not identical(world.document, self.environment.document):
            message = "the calls lead from the seed to another world"
            raise SchemaError("log_not_reproducible", message, "$.environment")
        return Session(seed, tuple(steps), tools=tools)


def _adopted(name: str, part: Any, adopt: Adopt) -> Any:
    # Worlds and arguments have the full depth to themselves, each of them.
    if name != "log" or not is_array(part):
        return _below((name,), adopt, part)
    return [
        {n: _below((name, index, n), adopt, member) for n, member in call.items()}
        if is_object(call)
        else _below((name, index), adopt, call)
        for index, call in enumerate(part)
    ]


def _below(path: tuple[str | int, ...], adopt: Adopt, part: Any) -> Any:
    try:
        return adopt(part)
    except DataError as error:
        raise error.below(*path) from None


def _check_keys(log: tuple[RecordedCall, ...]) -> None:
    used: set[str] = set()
    for position, recorded in enumerate(log):
        if recorded.key is not None and recorded.key in used:
            where, shown = json_path(["log", position, "key"]), preview(recorded.key)
            message = "the key was used by an earlier call"
            raise SchemaError("repeated_key", message, where, shown)
        used.update([] if recorded.key is None else [recorded.key])


def _compare(recorded: RecordedCall, made: RecordedCall, position: int) -> None:
    for member in _PROVEN:
        found = getattr(made, member)
        if getattr(recorded, member) != found:
            message = f"executing the call again gives another {member}"
            where = json_path(["log", position, member])
            shown = preview(found.message if member == "error" and found else found)
            raise SchemaError("log_not_reproducible", message, where, shown)
