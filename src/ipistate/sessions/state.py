"""A session's state as a checkpoint carries it: a value with a codec.

``StateCodec`` is all that records, directories and the machine know of a state, so that
other state models can be served. ``EnvironmentCodec`` is the one for IPI sessions.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    Self,
    TypeVar,
    cast,
)

import attrs

from ipistate.errors import (
    DecodeError,
    EncodeError,
    Problem,
    SchemaError,
    json_path,
    preview,
)
from ipistate.kernel import (
    Environment,
    JsonObject,
    MigrationChain,
    Representation,
    SharedParts,
    decode_as,
    encode,
    freeze,
    misused,
    summarized,
    trusted_object,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ipistate.kernel import Adopt

S = TypeVar("S")

STATE_VERSIONS: Final = MigrationChain(
    newest=1,
    elsewhere=MappingProxyType(
        {
            2: "it has a log of calls, which session_from_json() reads and"
            " `ipistate checkpoint migrate --to 1` drops"
        }
    ),
)
"""The versions of the IPI state without a log; ``LOG_VERSIONS`` goes on."""

_MEMBERS: Final = ("schema_version", "environment")


class StateCodec(Protocol[S]):
    """How one kind of immutable session state becomes JSON and comes back."""

    def encode(self, state: S) -> bytes:
        """Write the state as compact JSON; a function of its value only."""
        ...

    def decode(self, tree: Any, adopt: Adopt) -> S:
        """Build the state from a parsed tree, keeping parts by ``adopt`` only.

        Raises:
            SchemaError: The tree is not a valid state.
        """
        ...


def _require_newest(_: object, __: object, version: int) -> None:
    if type(version) is not int or version != STATE_VERSIONS.newest:
        message = f"a state in memory has the newest version, {STATE_VERSIONS.newest}"
        where, shown = "$.schema_version", preview(version)
        raise SchemaError("unsupported_version", message, where, shown)


def _check_environment(_: object, __: object, environment: Any) -> None:
    if not isinstance(environment, Environment):
        instead = "IPICheckpointState(Environment.of(world))"
        raise misused("a state has an Environment", environment, instead)


@attrs.frozen
class IPICheckpointState:
    """The exported state of one IPI session (docs/reference/control-plane.md, section 7.1)."""

    environment: Environment = attrs.field(validator=_check_environment)
    schema_version: int = attrs.field(
        default=STATE_VERSIONS.newest, validator=_require_newest
    )

    __repr__: ClassVar[Representation] = summarized()

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a state from JSON text, migrating an older version.

        Raises:
            DecodeError: The text is not acceptable JSON.
            SchemaError: It is not a state; ``problems`` lists every reason.
        """
        return decode_as(data, cls.from_tree)

    @classmethod
    def from_document(cls, document: object) -> Self:
        """Read a state from a JSON value; plain Python data is copied.

        Raises:
            EncodeError: A part of it is not JSON.
            SchemaError: It is not a state; ``problems`` lists every reason.
        """
        return cls.from_tree(document, freeze)

    @classmethod
    def from_tree(
        cls, tree: Any, adopt: Adopt, chain: MigrationChain = STATE_VERSIONS
    ) -> Self:
        """Read a state from a parsed tree (see ``decode_as``).

        Raises:
            SchemaError: It is not a state; ``problems`` lists every reason.
        """
        if not isinstance(tree, dict):
            shown = preview(tree)
            raise SchemaError("wrong_type", "a state is an object", preview=shown)
        document: dict[str, Any] = tree  # pyright: ignore[reportUnknownVariableType]
        older = document.get("schema_version") != chain.newest
        if older and chain.problem_of(document) is None:
            members = {name: adopt(member) for name, member in document.items()}
            document, adopt = chain.upgrade(trusted_object(members)), freeze
        SchemaError.raise_for(_problems(document, chain))
        try:
            return cls(Environment(adopt(document["environment"])))  # type: ignore[arg-type]
        except (DecodeError, EncodeError) as error:
            raise error.below("environment") from None

    def to_json(self) -> bytes:
        """Write the state as compact JSON, key order kept.

        Raises:
            EncodeError: ``not_finite``: a number was forced into the environment.
        """
        return _framed(self.schema_version, self.environment.to_json())

    def to_document(self) -> JsonObject:
        """Return the state as a JSON object that shares the environment."""
        # A depth limit counts for the environment alone, hence no second check.
        return trusted_object(
            {
                "schema_version": self.schema_version,
                "environment": self.environment.document,
            }
        )


def _framed(version: int, environment: bytes) -> bytes:
    return b'{"schema_version":%d,"environment":%b}' % (version, environment)


def _problems(tree: Mapping[str, Any], chain: MigrationChain) -> Iterator[Problem]:
    version = chain.problem_of(tree)
    if version is not None:
        yield version
        if version.code == "unsupported_version":
            return  # which other members that version has is not known
    if "environment" not in tree:
        yield Problem("missing_member", "$.environment", "required member is missing")
    elif not isinstance(tree["environment"], dict):
        shown = preview(tree["environment"])
        yield Problem("wrong_type", "$.environment", "expected an object", shown)
    for name in tree:
        if name not in _MEMBERS:
            message = f"unknown member {name!a}"
            yield Problem("unknown_member", json_path([name]), message)


@attrs.frozen
class EnvironmentCodec:
    """Carries a live ``Environment`` as an ``IPICheckpointState``."""

    chain: MigrationChain = STATE_VERSIONS

    def encode(self, state: Environment) -> bytes:
        """Write the environment with its version around it.

        A commit has no time for the look of ``to_json`` at what was forced into it.
        """
        return _framed(STATE_VERSIONS.newest, encode(state.document))

    def decode(self, tree: Any, adopt: Adopt) -> Environment:
        """Read an environment of any readable version.

        Raises:
            SchemaError: The tree is not a valid state.
        """
        return IPICheckpointState.from_tree(tree, adopt, self.chain).environment


class SharingCodec(Generic[S]):
    """Reads equal worlds, and equal parts of worlds, as one object each.

    Args:
        codec: How a state is read and written; the values are as without sharing.
    """

    def __init__(self, codec: StateCodec[S]) -> None:
        self._codec = codec
        self._parts = SharedParts()
        self._worlds: dict[int, Environment] = {}

    def encode(self, state: S) -> bytes:
        """Write the state as ``codec`` does."""
        return self._codec.encode(state)

    def decode(self, tree: Any, adopt: Adopt) -> S:
        """Build the state as ``codec`` does.

        Raises:
            SchemaError: The tree is not a valid state.
        """
        state = self._codec.decode(tree, self._parts.adopting(adopt))
        if isinstance(state, Environment):
            # A commit writes the text of a state object once, however often it occurs.
            return cast("S", self._worlds.setdefault(id(state.document), state))
        return state
