"""What NeMo Gym's launcher tells a server: two variables of its environment.

The one is the resolved configuration of the deployment, YAML as a dumper writes it; the
other is the server's own name in it. Of YAML only that form is read, and JSON: block
mappings of plain or quoted texts, which is where the few members that matter stand.
"""

from __future__ import annotations

import json
import re

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias, cast

import attrs

from ipistate.cli.exits import RefusedInputError


DOCUMENT: Final = "NEMO_GYM_CONFIG_DICT"
NAME: Final = "NEMO_GYM_CONFIG_PATH"
SERVER_TYPE: Final = "resources_servers"

_MEMBER: Final = re.compile(
    r"""( *)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s'"#-][^:]*):(?: +(.*))?"""
)
_REFERENCE: Final = re.compile(r"\$\{([^${}]+)\}")
_VARIABLE: Final = "oc.env:"
_LONGEST_CHAIN: Final = 10

_Block: TypeAlias = "list[str] | Mapping[str, Any]"


@attrs.frozen
class GymServer:
    """The place of a resources server in a deployment."""

    name: str
    host: str
    port: str
    token: str | None = attrs.field(default=None, repr=False)
    """Of the control plane; None without checkpoints."""
    lease_grace: str | None = None

    @property
    def options(self) -> list[str]:
        """The options of ``ipistate serve``, without the token."""
        given = ["--host", self.host, "--port", self.port, "--instance-name", self.name]
        grace = self.lease_grace
        return given if grace is None else [*given, "--lease-grace", grace]


def gym_server(environ: Mapping[str, str]) -> GymServer:
    """Find the server that this process is to be.

    Raises:
        RefusedInputError: A variable is missing, or the configuration has no such
            server, no address for it, or checkpoints without a token.
    """
    text, name = (_variable(environ, one) for one in (DOCUMENT, NAME))
    deployment = _Deployment(_read(text), environ)
    found = [*deployment.names(name, SERVER_TYPE)]
    if len(found) != 1:
        raise RefusedInputError(f"{DOCUMENT} has no resources server {name!a}")
    own = (name, SERVER_TYPE, found[0])
    if deployment.text("checkpoint", "enabled") not in {"true", "True"}:
        return GymServer(
            name, deployment.needed(*own, "host"), deployment.needed(*own, "port")
        )
    return GymServer(
        name,
        deployment.needed(*own, "host"),
        deployment.needed(*own, "port"),
        deployment.needed("checkpoint", "control_auth_token"),
        deployment.text("checkpoint", "lease_grace_seconds"),
    )


def _variable(environ: Mapping[str, str], name: str) -> str:
    if name not in environ:
        message = f"the environment has no {name}: NeMo Gym's launcher sets it"
        raise RefusedInputError(message)
    return environ[name]


def _read(text: str) -> _Block:
    try:
        document = json.loads(text)
    except ValueError:
        return text.splitlines()
    return cast("Mapping[str, Any]", document) if isinstance(document, dict) else []


class _Deployment:
    """Looks members up by their paths, and follows references to others."""

    def __init__(self, block: _Block, environ: Mapping[str, str]) -> None:
        self._block = block
        self._environ = environ

    def names(self, *path: str) -> Iterator[str]:
        """Name the members of a mapping, none if it is not there."""
        _, block = self._at(*path)
        return (name for name, _, _ in _members(block))

    def text(self, *path: str) -> str | None:
        """Return a member's text; None if it is not there, or null."""
        text, _ = self._at(*path)
        for _ in range(_LONGEST_CHAIN):
            if text is None or not _REFERENCE.search(text):
                return text
            text = _REFERENCE.sub(lambda found: self._referred(found[1]), text)
        raise RefusedInputError(f"{DOCUMENT}: {'.'.join(path)} refers to itself")

    def needed(self, *path: str) -> str:
        """Return a member's text, which has to be there."""
        text = self.text(*path)
        if not text:
            raise RefusedInputError(f"{DOCUMENT} has no {'.'.join(path)}")
        return text

    def _referred(self, reference: str) -> str:
        if reference.startswith(_VARIABLE):
            name, _, default = reference.removeprefix(_VARIABLE).partition(",")
            return self._environ.get(name, default)
        return self._at(*reference.split("."))[0] or ""

    def _at(self, *path: str) -> tuple[str | None, _Block]:
        text, block = None, self._block
        for step in path:
            inner: list[tuple[str | None, _Block]] = [
                (scalar, rest) for name, scalar, rest in _members(block) if name == step
            ]
            text, block = inner[-1] if inner else (None, [])
        return text, block


def _members(block: _Block) -> Iterator[tuple[str, str | None, _Block]]:
    if isinstance(block, Mapping):
        for name, member in block.items():
            is_inner = isinstance(member, dict)
            yield name, None if is_inner else _shown(member), member if is_inner else []
        return
    # Only what stands as far in as the first line is a member; the rest is in one.
    at: list[int] = []
    depth = next((len(one) - len(one.lstrip()) for one in block if one.strip()), 0)
    for number, line in enumerate(block):
        found = _MEMBER.fullmatch(line.rstrip())
        if found is not None and len(found[1]) == depth:
            at.append(number)
    for number, end in pairwise([*at, len(block)]):
        found = _MEMBER.fullmatch(block[number].rstrip())
        if found is not None:
            yield _scalar(found[2]) or "", _scalar(found[3]), block[number + 1 : end]


def _shown(value: object) -> str | None:
    return value if isinstance(value, str | None) else json.dumps(value)


def _scalar(text: str | None) -> str | None:
    if text is None or text in {"null", "~", ""}:
        return None
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    return text
