"""The digests of staged tokens, byte for byte as other implementations make them.

Each is the SHA-256 of a name and of fields that say how long they are, so no two
different records have the same bytes. Integers are unsigned, 8 bytes, big-endian, unless
it says otherwise; see docs/reference/control-plane.md, section 6.
"""

from __future__ import annotations

import struct

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Final

import attrs

from ipistate.errors import SchemaError
from ipistate.kernel import EMPTY_OBJECT, JsonArray, JsonObject, JsonValue


_PREFIX: Final = b"nemo-gym-staging-prefix-v2"
_CHAIN: Final = b"nemo-gym-staging-chain-v1"
_EXTRAS: Final = b"nemo-gym-staging-extras-v1"
_CALL: Final = b"nemo-gym-staging-call-v2"
_VERSIONS: Final = bytes((3, 2, 1))
"""Of the schema, of the digest and of the extras."""


def _u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def _sized(data: bytes) -> bytes:
    return _u64(len(data)) + data


def _text(text: str) -> bytes:
    return _sized(text.encode())


def _optional_text(text: str | None) -> bytes:
    return b"\0" if text is None else b"\1" + _text(text)


def _ids(tokens: Sequence[int]) -> bytes:
    return struct.pack(f">{len(tokens) + 1}Q", len(tokens), *tokens)


def _floats(numbers: Sequence[float]) -> bytes:
    return _u64(len(numbers)) + struct.pack(f">{len(numbers)}f", *numbers)


@contextmanager
def _digestible() -> Generator[None]:
    try:
        yield
    except (struct.error, OverflowError, UnicodeEncodeError) as error:
        message = f"a member does not fit into the digest's fields: {error}"
        raise SchemaError("not_digestible", message) from error


def cumulative_hash(tokens: Sequence[int]) -> bytes:
    """Return the digest of all token ids from the beginning of a sequence.

    Raises:
        SchemaError: ``not_digestible``: an id is negative or has more than 64 bits.
    """
    with _digestible():
        return sha256(_PREFIX + _ids(tokens)).digest()


def chain_hash(parent: bytes | None, delta: Sequence[int]) -> bytes:
    """Return the digest of a call's own token ids, chained to that of its parent.

    Raises:
        SchemaError: ``not_digestible``: an id is negative or has more than 64 bits.
    """
    before = b"\0" if parent is None else b"\1" + parent
    with _digestible():
        return sha256(_CHAIN + before + _ids(delta)).digest()


def extras_digest(extras: JsonObject) -> bytes:
    """Return the digest of what a call carries beside its tokens.

    Raises:
        SchemaError: ``not_digestible``: an integer has more than 64 bits, or a text half
            of a surrogate pair.
    """
    with _digestible():
        return sha256(_EXTRAS + b"\1" + b"".join(_extra(extras))).digest()


def _extra(value: JsonValue) -> Iterable[bytes]:
    match value:
        case None:
            yield b"N"
        case bool():
            yield b"B\1" if value else b"B\0"
        case int():
            yield b"I" + struct.pack(">q", value)
        case float():
            yield b"F" + struct.pack(">d", value)
        case str():
            yield b"S" + _text(value)
        case JsonArray():
            yield b"L" + _u64(len(value))
            for item in value:
                yield from _extra(item)
        case _:
            yield b"D" + _u64(len(value))
            for name in sorted(value, key=str.encode):
                yield _text(name)
                yield from _extra(value[name])


@attrs.frozen(kw_only=True)
class StagedCall:
    """The tokens of one call of a model, as a worker stages them."""

    rollout_id: str
    """The capture key."""
    model_call_id: str
    parent_call_id: str | None = None
    mode: str
    """``text`` or ``token_in``."""
    prev_len: int
    """How many tokens the parents have."""
    tokens: tuple[int, ...]
    """The rest of the prompt, then what was generated."""
    mask: tuple[float, ...]
    """1 for a generated token, 0 for one of the prompt."""
    logprobs: tuple[float, ...]
    """0 for a token of the prompt."""
    weight_version: int
    extras: JsonObject = EMPTY_OBJECT
    chain_hash: bytes
    cumulative_hash: bytes

    @property
    def delta_len(self) -> int:
        """How many tokens the call adds."""
        return len(self.tokens)

    @property
    def cum_len(self) -> int:
        """How many tokens there are with those of the parents."""
        return self.prev_len + self.delta_len

    def digest(self) -> bytes:
        """Return the digest under which the call is staged.

        Raises:
            SchemaError: ``not_digestible``: a member does not fit into its field.
        """
        with _digestible():
            return sha256(b"".join(self._fields())).digest()

    def _fields(self) -> tuple[bytes, ...]:
        counts = (self.prev_len, self.delta_len, self.cum_len, self.weight_version)
        return (
            _CALL,
            _VERSIONS,
            _text(self.rollout_id),
            _text(self.model_call_id),
            _optional_text(self.parent_call_id),
            _text(self.mode),
            *map(_u64, counts),
            _sized(_ids(self.tokens)),
            _sized(_floats(self.mask)),
            _sized(_floats(self.logprobs)),
            extras_digest(self.extras),
            b"\1" + self.chain_hash,
            b"\1" + self.cumulative_hash,
        )
