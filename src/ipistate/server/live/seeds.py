"""What ``/seed_session`` and ``/close_session`` accept (docs/reference/control-plane.md, 1.5).

Seeds seen before are pooled, so that rollouts of one task share one frozen world. Worlds
are immutable, so sharing one between sessions changes nothing that they can see.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeAlias, cast

import attrs
import orjson

from ipistate.errors import DecodeError, EncodeError, SchemaError, json_path, preview
from ipistate.kernel import (
    Adopt,
    Environment,
    JsonObject,
    decode_as,
    freeze,
    structure,
)
from ipistate.protocol import EpisodeId, check_session_id
from ipistate.server.live.recent import Recent


@attrs.frozen(kw_only=True)
class NativeSession:
    """A session that the caller named, as a close request repeats it."""

    resources_session_id: str = attrs.field(validator=check_session_id)
    episode_id: EpisodeId


@attrs.frozen(kw_only=True)
class _NativeSeed(NativeSession):
    task_id: JsonObject
    task_data: Any


@attrs.frozen
class Seed:
    """A world to start from, and the caller's name for the session if there is one."""

    world: Environment
    native: NativeSession | None = None


def _frozen(members: dict[str, Any], adopt: Adopt) -> Environment:
    return Environment(adopt(members))  # type: ignore[arg-type]


_Build: TypeAlias = Callable[[dict[str, Any]], Environment]


def _seed(row: dict[str, Any], build: _Build) -> Seed:
    # Of a task row only ``environment`` is looked at. A body without it that names a
    # session is native.
    if "environment" in row or "resources_session_id" not in row:
        return Seed(_world(row, build))
    native = structure(row, _NativeSeed)
    world = _world(_object_of(native.task_data, "task_data"), build, "task_data")
    return Seed(
        world,
        NativeSession(
            resources_session_id=native.resources_session_id,
            episode_id=native.episode_id,
        ),
    )


def _object_of(tree: Any, *path: str) -> dict[str, Any]:
    # A parsed body, or the part of it at a path, that has to be an object.
    if isinstance(tree, dict):
        return cast("dict[str, Any]", tree)
    where, shown = json_path(path), preview(tree)
    raise SchemaError("wrong_type", "expected an object", where, shown)


def _world(row: dict[str, Any], build: _Build, *path: str) -> Environment:
    inner = (*path, "environment")
    if "environment" not in row:
        message = "required member is missing"
        raise SchemaError("missing_member", message, json_path(inner))
    members = _object_of(row["environment"], *inner)
    try:
        return build(members)
    except (DecodeError, EncodeError) as error:
        raise error.below(*inner) from None


class SeedCache:
    """Worlds by the request that seeded them, and by the digest of their own text.

    The first saves reading a request sent again. The second saves building a world, and
    its memory, when only the rest of the request differs, as it does between rollouts.
    """

    def __init__(self, limit: int) -> None:
        # Requests are repeated at once or not at all.
        self._by_request: Recent[Seed] = Recent(limit // 16)
        self._by_digest: Recent[Environment] = Recent(limit)

    def seed(self, request: bytes) -> Seed:
        """Return the seed that a request body carries, reading it only if it is new.

        Raises:
            DecodeError: The body is not acceptable JSON.
            SchemaError: It is not a seed.
        """
        known = self._by_request.get(request)
        if known is None:
            known = decode_as(request, self._read)
            self._by_request.put(request, known)
        return known

    def _read(self, tree: Any, adopt: Adopt) -> Seed:
        return _seed(_object_of(tree), lambda members: self._shared(members, adopt))

    def _shared(self, members: dict[str, Any], adopt: Adopt) -> Environment:
        text = None if adopt is freeze else _text(members)
        if text is None:
            return _frozen(members, adopt)
        digest = sha256(text).digest()
        known = self._by_digest.get(digest)
        if known is None:
            known = _frozen(members, adopt)
            self._by_digest.put(digest, known, len(text))
        else:
            # The tree is ours alone, and decoding looks at what is left of it. These
            # members are the known world's to the digit: they need no second look.
            members.clear()
        return known


def _text(members: dict[str, Any]) -> bytes | None:
    # A tree of the fast parser may have lost digits. Its text is no known world's then:
    # building a world from such a tree fails, so it never gets into the pool.
    try:
        return orjson.dumps(members)
    except TypeError:
        return None
