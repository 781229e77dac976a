"""The names on the wire, each of them once: paths, headers, the cookie, defaults.

Servers, clients and the pure rules share them (docs/reference/control-plane.md,
sections 1 and 2).
"""

from __future__ import annotations

from typing import Final

from ipistate.protocol.episode import EpisodeId


SEED_PATH: Final = "/seed_session"
VERIFY_PATH: Final = "/verify"
CLOSE_PATH: Final = "/close_session"
METRICS_PATH: Final = "/aggregate_metrics"
REVERIFY_PATH: Final = "/reverify_mode"
RUN_PATH: Final = "/run"
RESPONSES_PATH: Final = "/v1/responses"
AGENT_SESSIONS_PATH: Final = "/v1/agent_sessions"
AGENT_CLOSE_PATH: Final = "/v1/agent_sessions/close"
LIVENESS_PATHS: Final = ("/", "/health", "/healthz", "/livez", "/readyz")

RESERVED_NAMES: Final = frozenset(
    path.removeprefix("/")
    for path in (SEED_PATH, VERIFY_PATH, CLOSE_PATH, METRICS_PATH)
)
"""POST routes that are matched before tools, so no tool can have their names."""

ROLLOUT_PREFIX: Final = "/ng-rollout/"
"""A capture key and the path proper follow."""

CAPTURE_SEGMENT: Final = "/training-token-capture"
"""Follows a capture key where a model's tokens are to be captured."""

CONTROL_PREFIX: Final = "/ng-control/"
"""What is below it passes no gate."""

CHECKPOINT_PATH: Final = "/ng-control/v1/checkpoint"
"""A slash and the operation's name follow."""

EXTENSION_PATH: Final = "/ipistate/v1"
"""A slash and the name of a route of the extension follow."""

VERIFY_MODE_HEADER: Final = "x-ng-checkpoint-verify"
"""The header of a seed's reply that says how a checkpoint treats verify requests."""

RESTART_HEADER: Final = "x-ng-checkpoint-restart"
"""``1`` in a seed's reply says that the server cannot capture the episode."""

ACTIVATION_HEADER: Final = "x-ng-agent-activation"
"""The number of an activation in its session, counted from 1."""

HINT_HEADER: Final = "x-ipistate-hint"
"""Says why a request has no session; the body's text is fixed."""

TIME_HEADER: Final = "x-ipistate-time"
"""Of the control plane's replies: the clock of deadlines, in seconds since the epoch."""

KEY_HEADER: Final = "Idempotency-Key"
"""Names a call that is made at most once."""

SERVER_CLASS: Final = "IPIResourcesServer"
"""The reference's class name: part of the cookie, so that cookies can cross over."""

DEFAULT_INSTANCE: Final = "ipi"

COOKIE_MAX_AGE: Final = 14 * 24 * 60 * 60
"""Seconds that a session cookie is good for."""

SESSION_MEMBER: Final = "session_id"
"""The member of the cookie's payload that names the session."""


def cookie_name(instance: str = DEFAULT_INSTANCE) -> str:
    """Return the session cookie's name (docs/reference/control-plane.md, section 1.4)."""
    return f"{SERVER_CLASS}___{instance}"


def prefixed(path: str, episode: EpisodeId | None) -> str:
    """Put the rollout prefix of an episode, if there is one, before a path."""
    if episode is None:
        return path
    return f"{ROLLOUT_PREFIX}{episode.capture_key}{path}"
