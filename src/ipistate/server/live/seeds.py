"""What ``/seed_session`` and ``/close_session`` accept (docs/reference/control-plane.md, 1.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import attrs

from ipistate.errors import DecodeError, EncodeError, SchemaError, json_path, preview
from ipistate.kernel import (
    Adopt,
    Environment,
    JsonObject,
    freeze,
    structure,
)
from ipistate.protocol import EpisodeId, check_session_id
from ipistate.server.live.known_worlds import KnownWorlds, read_body


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


def read_seed(request: bytes, worlds: KnownWorlds) -> Seed:
    """Return the seed that a request body carries.

    Raises:
        DecodeError: The body is not acceptable JSON.
        SchemaError: It is not a seed.
    """
    known = worlds.find(request)

    def world(members: dict[str, Any], adopt: Adopt) -> Environment:
        if known is not None and members is known.world.document:
            return known.world
        if adopt is freeze:
            return _frozen(members, adopt)
        return worlds.shared(request, members, lambda new: _frozen(new, adopt))

    return read_body(
        request,
        known,
        lambda tree, adopt: _seed(_object_of(tree), lambda row: world(row, adopt)),
    )
