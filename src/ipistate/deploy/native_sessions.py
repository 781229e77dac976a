"""What an agent keeps of a native session: its seed, and what its activations came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, cast

import attrs

from ipistate.deploy.activations import OTHER_TOOLS, ToolGrant
from ipistate.errors import SchemaError
from ipistate.kernel import (
    EMPTY_OBJECT,
    JsonArray,
    JsonObject,
    JsonValue,
    structure,
    trusted_object,
    unstructure,
)
from ipistate.protocol import ActivationLog, EpisodeId


if TYPE_CHECKING:
    from ipistate.deploy.activations import ActivationEnd


@attrs.frozen(kw_only=True)
class SeedBody:
    """The body that opens a native session."""

    agent_session_id: str
    episode_id: EpisodeId
    task_id: JsonObject
    tool_accesses: tuple[JsonObject, ...]
    sandbox_access: JsonObject | None = None

    def __attrs_post_init__(self) -> None:
        for place, access in enumerate(self.tool_accesses):
            grant_of(access, f"$.tool_accesses[{place}]")


@attrs.frozen(kw_only=True)
class CloseBody:
    """The body that frees a native session."""

    agent_session_id: str
    episode_id: EpisodeId


def grant_of(access: JsonValue, where: str) -> tuple[str, ToolGrant, JsonObject]:
    """Read a direct grant: the tool's name, where it is, and the cookies to begin with.

    Raises:
        SchemaError: ``invalid_grant``.
    """
    if isinstance(access, JsonObject) and access.get("kind") == "direct_http":
        name, base = access.get("name"), access.get("base_url")
        headers, cookies = access.get("headers"), access.get("cookies")
        if (
            isinstance(name, str)
            and isinstance(base, str)
            and isinstance(headers, JsonObject)
            and isinstance(cookies, JsonObject)
        ):
            return name, ToolGrant(base_url=base, headers=headers), cookies
    message = "expected a direct_http grant: name, base_url, headers, cookies"
    raise SchemaError("invalid_grant", message, where)


@attrs.frozen(kw_only=True)
class KeptSession:
    """The agent's own part of a session record."""

    request: JsonObject
    """The body of the seed."""
    resources_cookies: JsonObject = EMPTY_OBJECT
    """What the tools have set; empty before the first activation."""
    activations: int = 0
    completed_reply: JsonObject = EMPTY_OBJECT

    @classmethod
    def of(cls, own: JsonObject) -> Self:
        """Read what a session has kept."""
        return structure(own, cls)

    def to_document(self) -> JsonObject:
        """Write it for the session's record."""
        return unstructure(self)

    @property
    def log(self) -> ActivationLog:
        """Which activation may come next."""
        return ActivationLog(completed=self.activations, reply=self.completed_reply)

    @property
    def cookies(self) -> JsonObject:
        """The cookies that its tools are called with."""
        cookies: dict[str, JsonValue] = {}
        for access in self._accesses():
            cookies |= grant_of(access, "$")[2]
        return trusted_object({**cookies, **self.resources_cookies})

    def grants(self) -> dict[str, ToolGrant]:
        """Return where its tools are, by name; others are where the first one is."""
        found = [grant_of(access, "$") for access in self._accesses()]
        grants = {name: grant for name, grant, _ in found}
        return {OTHER_TOOLS: found[0][1], **grants} if found else {}

    def _accesses(self) -> JsonArray:
        return cast("JsonArray", self.request["tool_accesses"])

    def after(self, end: ActivationEnd) -> KeptSession:
        """Return the session after one more activation."""
        return attrs.evolve(
            self,
            resources_cookies=end.state.cookies,
            activations=self.activations + 1,
            completed_reply=end.response,
        )
