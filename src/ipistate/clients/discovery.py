"""Finding a deployment's participants (docs/reference/control-plane.md, section 5.2)."""

from __future__ import annotations

import asyncio

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ipistate.coordination import (
    STATUS_SECONDS,
    DiscoveryError,
    Failure,
    Introduction,
    Kind,
    Participant,
    ServerAddress,
    addresses,
    ordered,
)


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from ipistate.clients.control_client import ControlClient

REQUIRED: Final = (Kind.MODEL,)
"""What a deployment has to have: without its model a checkpoint loses token data."""


async def discover(
    deployment: Mapping[str, Any],
    client: ControlClient,
    *,
    required: Collection[Kind] = REQUIRED,
) -> tuple[Participant, ...]:
    """Ask every server of a deployment what it is.

    A server without the control routes (404) takes no part.

    Args:
        deployment: The resolved configuration, by server name.
        client: Asks the servers.
        required: Kinds that must be found; ``()`` allows a deployment without a model.

    Raises:
        SchemaError: A server of the configuration has no usable host and port.
        DiscoveryError: A server answered otherwise or not at all, or a kind is missing.
    """
    asked = await _introductions(addresses(deployment), client)
    told = {
        server: said
        for server, said in asked.items()
        if not (isinstance(said, Failure) and said.status == HTTPStatus.NOT_FOUND)
    }
    return _complete(_participants(told, lambda server, _: server.name), required)


async def discover_urls(
    urls: Iterable[str],
    client: ControlClient,
    *,
    required: Collection[Kind] = REQUIRED,
) -> tuple[Participant, ...]:
    """Ask servers that are listed by their URLs; each has to take part.

    Their names are those of their instances.

    Args:
        urls: One for each participant.
        client: Asks the servers.
        required: Kinds that must be among them; ``()`` allows that there is no model.

    Raises:
        SchemaError: ``invalid_url``.
        DiscoveryError: A server is no participant or did not answer, two have one name,
            or a kind is missing.
    """
    servers = dict.fromkeys(ServerAddress(url.rstrip("/"), url) for url in urls)
    found = _participants(
        await _introductions(servers, client),
        lambda server, said: said.instance or server.name,
    )
    _check_distinct(found)
    return _complete(found, required)


async def _introductions(
    servers: Iterable[ServerAddress], client: ControlClient
) -> dict[ServerAddress, Introduction | Failure]:
    asked = list(servers)
    said = await asyncio.gather(
        *(client.status(one, Introduction, STATUS_SECONDS) for one in asked)
    )
    return dict(zip(asked, said, strict=True))


def _participants(
    asked: Mapping[ServerAddress, Introduction | Failure],
    name: Callable[[ServerAddress, Introduction], str],
) -> tuple[Participant, ...]:
    found = ordered(
        Participant(name(server, said), server.url, Kind(said.kind))
        for server, said in asked.items()
        if isinstance(said, Introduction)
    )
    failures = [said for said in asked.values() if isinstance(said, Failure)]
    if failures:
        error = DiscoveryError.of(failures)
        error.found = found
        raise error
    return found


def _check_distinct(found: Iterable[Participant]) -> None:
    names = Counter((one.kind, one.name) for one in found)
    twice = [f"{kind} {name}" for (kind, name), times in names.items() if times > 1]
    if twice:
        message = f"several servers have one name: {', '.join(twice)}"
        raise DiscoveryError("duplicate_participant", message)


def _complete(
    found: tuple[Participant, ...], required: Collection[Kind]
) -> tuple[Participant, ...]:
    missing = [kind for kind in required if kind not in {one.kind for one in found}]
    if missing:
        names = ", ".join(f"{one.kind} {one.name}" for one in found) or "none"
        message = f"no participant of kind {', '.join(missing)} (found: {names})"
        raise DiscoveryError("missing_kind", message)
    if not found:
        raise DiscoveryError("no_participant", "no server takes part in checkpoints")
    return found
