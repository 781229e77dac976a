"""Staged tokens in a directory: a file for each call, durable before it is spoken of.

An entry never changes. It outlives all processes of a deployment; who keeps it decides
when it goes.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import attrs

from ipistate.capture import StagedCall
from ipistate.errors import DataError, IpiStateError
from ipistate.kernel import JsonObject, decode, encode, structure, unstructure
from ipistate.storage.atomic_file import sync_directory, write_atomically


MAX_NAME: Final = 200


class TokenStoreError(DataError):
    """An entry that cannot be used.

    ``token_entry_missing``; ``token_entry_conflict``: the key has other tokens;
    ``token_entry_damaged``: it is not what was staged.
    """


@attrs.frozen(kw_only=True)
class _Entry:
    """A staged call as a document: hashes in hex, and the digest of all."""

    rollout_id: str
    model_call_id: str
    parent_call_id: str | None
    mode: str
    prev_len: int
    tokens: tuple[int, ...]
    mask: tuple[float, ...]
    logprobs: tuple[float, ...]
    weight_version: int
    extras: JsonObject
    chain_hash: str
    cumulative_hash: str
    digest: str

    @classmethod
    def of(cls, call: StagedCall) -> _Entry:
        """Write a call."""
        members = {name: getattr(call, name) for name in _PLAIN}
        hashes = {name: getattr(call, name).hex() for name in _HASHES}
        return cls(**members, **hashes, digest=call.digest().hex())

    def call(self) -> StagedCall:
        """Read the call.

        Raises:
            ValueError: It is not what was staged.
        """
        members = {name: getattr(self, name) for name in _PLAIN}
        call = StagedCall(
            **members,
            chain_hash=bytes.fromhex(self.chain_hash),
            cumulative_hash=bytes.fromhex(self.cumulative_hash),
        )
        if call.digest().hex() != self.digest:
            raise ValueError("its digest is another")
        return call


_HASHES: Final = ("chain_hash", "cumulative_hash")
_PLAIN: Final = tuple(
    field.name for field in attrs.fields(StagedCall) if field.name not in _HASHES
)


class TokenStore:
    """The staged calls below a directory.

    Args:
        root: The directory; it is made if it does not exist.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root

    def put(self, key: str, call: StagedCall) -> None:
        """Keep a call, and wait until it is on the disk; the same again changes nothing.

        Raises:
            TokenStoreError: ``token_entry_conflict``.
            OSError: It cannot be written; nothing is there.
        """
        path = self._path(key)
        data = encode(unstructure(_Entry.of(call))) + b"\n"
        if path.exists():
            if path.read_bytes() != data:
                message = f"{key!a} has other tokens"
                raise TokenStoreError("token_entry_conflict", message)
        else:
            write_atomically(path, data)
        # Also for an entry that was there: who wrote it may not have waited.
        sync_directory(self._root)

    def get(self, key: str) -> StagedCall:
        """Read a call.

        Raises:
            TokenStoreError: ``token_entry_missing`` or ``token_entry_damaged``.
        """
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            message = f"{key!a} is not in the token store"
            raise TokenStoreError("token_entry_missing", message) from None
        try:
            return structure(decode(data), _Entry).call()
        except (IpiStateError, ValueError) as error:
            message = f"{key!a}: {error}"
            raise TokenStoreError("token_entry_damaged", message) from error

    def _path(self, key: str) -> Path:
        # Encoded, a key has no slash, so it leads nowhere else.
        name = quote(key, safe="")
        if len(name) > MAX_NAME or name.startswith("."):
            name = sha256(key.encode()).hexdigest()
        return self._root / f"{name}.json"
