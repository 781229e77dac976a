"""A session with its log as a checkpoint carries it: version 2 of the state.

It holds the seed, the calls with what each answered, and the world now. The worlds
between are not stored: reading executes the log again, which proves it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.checkpoint.state import IPICheckpointState
from ipistate.codec import decode_as, encode
from ipistate.environment import Environment
from ipistate.errors import IpiStateError, SchemaError, json_path, preview
from ipistate.migration import MigrationChain
from ipistate.schema import refuse, structure
from ipistate.session import Session, Step, execute
from ipistate.tools import TOOLS, Tool
from ipistate.transition import ToolCall, ToolError
from ipistate.values import (
    EMPTY_ARRAY,
    JsonObject,
    JsonValue,
    freeze,
    identical,
    is_array,
    is_object,
    trusted_array,
    trusted_object,
    whole_text,
)


if TYPE_CHECKING:
    from collections.abc import Mapping

    from ipistate.codec import Freeze


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


CHAIN: Final = MigrationChain(newest=2, steps=MappingProxyType({1: _with_log}))
"""The versions of the state, with a log from version 2 on."""


@attrs.frozen(kw_only=True)
class RecordedCall:
    """One call of a log as it was written."""

    name: str
    arguments: JsonObject
    output: str
    error: ToolError | None
    key: str | None


def _check_seed(
    session: RecordedSession, field: attrs.Attribute[Any], seed: Environment | None
) -> None:
    # One value has one text: a session whose world is as it began has no seed.
    if seed is not None and identical(seed.document, session.environment.document):
        message = "a seed that is the environment itself is written as null"
        raise refuse("redundant_seed", message, seed.document, field)


@attrs.frozen(kw_only=True)
class RecordedSession:
    """A session as it was written, whether or not its log can be executed again."""

    schema_version: int
    environment: Environment
    seed: Environment | None = attrs.field(validator=_check_seed)
    """None if the world now is the seed, too."""
    log: tuple[RecordedCall, ...]

    @classmethod
    def from_tree(cls, tree: Any, adopt: Freeze) -> RecordedSession:
        """Read a session of any version from a parsed tree (see ``codec.decode_as``).

        Raises:
            SchemaError: It is not a session; ``problems`` lists every reason.
        """
        if not is_object(tree):
            shown = preview(tree)
            raise SchemaError("wrong_type", "a session is an object", preview=shown)
        problem = CHAIN.problem_of(tree)
        if problem is not None and problem.code == "unsupported_version":
            raise SchemaError.of([problem])
        kept = {name: _adopted(name, part, adopt) for name, part in tree.items()}
        if problem is None and tree["schema_version"] < CHAIN.newest:
            kept = CHAIN.upgrade(trusted_object(kept))
        return structure(kept, cls)

    def executed(self, tools: Mapping[str, Tool]) -> Session:
        """Execute the log on the seed again.

        Raises:
            SchemaError: ``log_not_reproducible``, ``repeated_key``.
        """
        seed = self.environment if self.seed is None else self.seed
        world, steps = seed, list[Step]()
        used: set[str] = set()
        for position, recorded in enumerate(self.log):
            call = ToolCall(recorded.name, recorded.arguments)
            step = execute(world, call, recorded.key, tools=tools)
            _compare(recorded, step, position)
            _check_unused(recorded.key, used, position)
            steps.append(step)
            world = step.environment
        if not identical(world.document, self.environment.document):
            message = "the calls lead from the seed to another world"
            raise SchemaError("log_not_reproducible", message, "$.environment")
        return Session(seed, tuple(steps))


def _adopted(name: str, part: Any, adopt: Freeze) -> Any:
    # Worlds and arguments have the full depth to themselves, each of them.
    if name != "log" or not is_array(part):
        return _below((name,), adopt, part)
    return [
        {n: _below((name, index, n), adopt, member) for n, member in call.items()}
        if is_object(call)
        else _below((name, index), adopt, call)
        for index, call in enumerate(part)
    ]


def _below(path: tuple[str | int, ...], adopt: Freeze, part: Any) -> JsonValue:
    try:
        return adopt(part)
    except IpiStateError as error:
        raise error.below(*path) from None


def _compare(recorded: RecordedCall, step: Step, position: int) -> None:
    # Storage joins the halves of a character that a tool has put side by side.
    if recorded.output != whole_text(step.output):
        raise _differs(position, "output", step.output)
    error = None if step.error is None else _whole_error(step.error)
    if recorded.error != error:
        raise _differs(position, "error", error and f"{error.type}: {error.message}")
    if recorded.key != step.key:
        raise _differs(position, "key", step.key)


def _whole_error(error: ToolError) -> ToolError:
    return ToolError(error.type, whole_text(error.message))


def _differs(position: int, member: str, value: object) -> SchemaError:
    message = f"executing the call again gives another {member}"
    where = json_path(["log", position, member])
    return SchemaError("log_not_reproducible", message, where, preview(value))


def _check_unused(key: str | None, used: set[str], position: int) -> None:
    if key is None:
        return
    if key in used:
        where = json_path(["log", position, "key"])
        message = "the key was used by an earlier call"
        raise SchemaError("repeated_key", message, where, preview(key))
    used.add(key)


def session_document(session: Session) -> JsonObject:
    """Write a session as a document of version 2 that shares its worlds."""
    seed, world = session.seed.document, session.environment.document
    # A depth limit counts for each world and each arguments alone, hence no check.
    return trusted_object(
        {
            "schema_version": CHAIN.newest,
            "environment": world,
            "seed": None if identical(seed, world) else seed,
            "log": trusted_array(map(_recorded, session.log)),
        }
    )


def _recorded(step: Step) -> JsonObject:
    error = step.error
    return trusted_object(
        {
            "name": whole_text(step.call.name),
            "arguments": step.call.arguments,
            "output": whole_text(step.output),
            "error": None if error is None else freeze(attrs.asdict(error)),
            "key": freeze(step.key),
        }
    )


@attrs.frozen
class SessionCodec:
    """Carries a live ``Session`` as version 2 of the state, and reads version 1, too.

    A session of version 1 has no log; its seed is the world that it had then. The text
    depends on the value only.
    """

    tools: Mapping[str, Tool] = attrs.field(default=TOOLS, repr=False)
    """The tools that execute the log again when a session is read."""

    def encode(self, state: Session) -> bytes:
        """Write the session with its log."""
        return encode(session_document(state))

    def decode(self, tree: Any, adopt: Freeze) -> Session:
        """Read a session of any readable version and execute its log again.

        Raises:
            SchemaError: The tree is not a valid session, or its log is not what
                these tools do (``log_not_reproducible``).
        """
        return RecordedSession.from_tree(tree, adopt).executed(self.tools)


def session_to_json(session: Session) -> bytes:
    """Write a session with its log as compact JSON: version 2 of the state.

    ``IPICheckpointState(session.environment)`` is version 1, which has no log.
    """
    return SessionCodec().encode(session)


def session_from_json(
    data: bytes | str, *, tools: Mapping[str, Tool] = TOOLS
) -> Session:
    """Read a session from JSON text of version 1 or 2, and execute its log again.

    Raises:
        DecodeError: The text is not acceptable JSON.
        SchemaError: It is not a session, or its log is not what the tools do
            (``log_not_reproducible``, with the call's path).
    """
    return decode_as(data, SessionCodec(tools).decode)


def without_log(document: JsonObject) -> JsonObject:
    """Turn a document of version 2 into one of version 1: its log is dropped.

    Nothing is executed, so this also reads a log that cannot be executed any more.

    Raises:
        SchemaError: It is not a session of a readable version.
    """
    recorded = RecordedSession.from_tree(document, freeze)
    return IPICheckpointState(recorded.environment).to_document()
