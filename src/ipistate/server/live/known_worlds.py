"""Worlds that the server has read before, found again without reading their text.

All rollouts of a task seed the same world, and a verify request repeats it, so most of
what arrives is known. Worlds are immutable: sharing one changes nothing that a session
can see.
"""

from __future__ import annotations

import re

from hashlib import sha256
from json import JSONDecoder
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs
import orjson

from ipistate.errors import IpiStateError
from ipistate.kernel import Adopt, Environment, decode_as, is_object
from ipistate.server.live.recent import Recent


if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_Known: TypeAlias = "tuple[bytes, Environment]"

_MEMBER: Final = re.compile(rb'"environment"[ \t\r\n]*:[ \t\r\n]*(?=\{)')
# Worlds of one domain begin alike, and each candidate costs a comparison.
_OPENING_BYTES: Final = 256
_MAX_TEXTS: Final = 16
_SPELLING: Final = JSONDecoder()


class _Elsewhere(Exception):
    """The text that was taken out is not the row's world."""


@attrs.frozen
class KnownBody:
    """A body whose world is known: the rest of it, and where the world belongs."""

    rest: bytes
    world: Environment
    mark: str
    """Stands in the rest in place of the world."""

    def restored(self, tree: Any) -> Any:
        """Put the world, frozen as it is, into the parsed rest."""
        if is_object(tree):
            if tree.get("environment") == self.mark:
                return {**tree, "environment": self.world.document}
            task = tree.get("task_data")
            if is_object(task) and task.get("environment") == self.mark:
                put = {**task, "environment": self.world.document}
                return {**tree, "task_data": put}
        raise _Elsewhere


class KnownWorlds:
    """Worlds by the text that brought them, and by the digest of their own text.

    The first saves reading; the second saves, for a text that is spelled otherwise,
    building the world and its memory.

    Args:
        limit: Bytes of all worlds, as JSON; a quarter more for the texts.
    """

    def __init__(self, limit: int) -> None:
        self._texts = limit // 4
        self._by_opening: Recent[tuple[_Known, ...]] = Recent(self._texts)
        self._by_digest: Recent[Environment] = Recent(limit)
        # No client can know it, so none can place it in a row.
        self._mark = token_hex(16)

    def find(self, body: bytes) -> KnownBody | None:
        """Look whether a body carries a known text; takes no longer than copying it."""
        found = _MEMBER.search(body)
        if found is None:
            return None
        start = found.end()
        candidates = self._by_opening.get(body[start : start + _OPENING_BYTES]) or ()
        for text, world in candidates:
            if body.startswith(text, start):
                mark = self._mark.encode()
                rest = b'%b"%b"%b' % (body[:start], mark, body[start + len(text) :])
                return KnownBody(rest, world, self._mark)
        return None

    def read(self, body: bytes, build: Callable[[Any, Adopt], T]) -> T:
        """Do as ``decode_as``; a world that is known is in the tree, frozen already.

        Raises:
            DecodeError: As ``decode_as``.
        """
        return read_body(body, self.find(body), build)

    def shared(
        self, body: bytes, members: dict[str, Any], build: Callable[[Any], Environment]
    ) -> Environment:
        """Return the world of a row's members, building it only if it is new.

        ``members`` come from the fast parser and are cleared if the world is known.
        """
        text = _text(members)
        if text is None:
            return build(members)
        digest = sha256(text).digest()
        known = self._by_digest.get(digest)
        if known is not None:
            # The tree is ours alone, and decoding looks at what is left of it. These
            # members are the known world's to the digit: they need no second look.
            members.clear()
            self._learn(_spelled(body, text), known)
            return known
        world = build(members)
        self._by_digest.put(digest, world, len(text))
        self._learn(text, world)
        return world

    def _learn(self, text: bytes, world: Environment) -> None:
        opening, size, kept = text[:_OPENING_BYTES], len(text), [(text, world)]
        for known in self._by_opening.get(opening) or ():
            size += len(known[0])
            if known[0] != text and size <= self._texts and len(kept) < _MAX_TEXTS:
                kept.append(known)
        self._by_opening.put(opening, tuple(kept), sum(len(known[0]) for known in kept))


def read_body(
    body: bytes, known: KnownBody | None, build: Callable[[Any, Adopt], T]
) -> T:
    """Do as ``decode_as``, with what has been found of the body."""
    if known is not None:
        try:
            return decode_as(
                known.rest, lambda tree, adopt: build(known.restored(tree), adopt)
            )
        except (_Elsewhere, IpiStateError):
            pass  # an error names a place in the whole body
    return decode_as(body, build)


def _text(members: dict[str, Any]) -> bytes | None:
    # A tree of the fast parser may have lost digits. Its text is no known world's then:
    # building a world from such a tree fails, so it never gets into the pool.
    try:
        return orjson.dumps(members)
    except TypeError:
        return None


def _spelled(body: bytes, text: bytes) -> bytes:
    # The same members as this client writes them: with blanks, or with escapes.
    found = _MEMBER.search(body)
    if found is None or body.startswith(text, found.end()):
        return text
    rest = body[found.end() :].decode()
    try:
        _, end = _SPELLING.raw_decode(rest)
        spelled = rest[:end].encode()
        return spelled if orjson.dumps(orjson.loads(spelled)) == text else text
    except (ValueError, RecursionError):
        return text
