"""What an agent's shell and its part tell each other about sessions and activations.

The task of an activation sends its own events in order, and goes on after each of
``LoopReached``, ``ModelAsked`` and ``ModelReplied`` only when ``LoopProceeds`` comes.
The task of a ``/run`` is an episode of the steps engine.
"""

from __future__ import annotations

import attrs

from ipistate.kernel import JsonObject
from ipistate.protocol.actions import PartAction
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.events import PartEvent


@attrs.frozen
class AgentRunArrived(PartEvent):
    """A ``/run`` has arrived; answered by ``StartEpisode`` or ``Refuse``.

    ``budget`` is the episode's time in seconds, None for no limit.
    """

    request: int
    episode: EpisodeId
    budget: float | None = None


@attrs.frozen
class SeedArrived(PartEvent):
    """A native session is to be opened; answered by ``Admit`` or ``Refuse``, if need be
    after the resume.
    """

    request: int
    key: str
    episode: EpisodeId


@attrs.frozen
class SeedEnded(PartEvent):
    """What an admitted seed has made; None if it failed or its client went away.

    Answered by ``SessionOpened``, or by ``Refuse``: what was made is to be freed then.
    """

    request: int
    own: JsonObject | None


@attrs.frozen
class ActivationArrived(PartEvent):
    """A session is to run; answered by ``StartActivation`` or ``Refuse``."""

    request: int
    key: str
    episode: EpisodeId


@attrs.frozen
class LoopReached(PartEvent):
    """The activation can be continued from this state of its turn loop."""

    key: str
    boundary: JsonObject


@attrs.frozen
class ModelAsked(PartEvent):
    """The activation is about to call the model."""

    key: str


@attrs.frozen
class ModelReplied(PartEvent):
    """The model's reply is here."""

    key: str


@attrs.frozen
class ActivationEnded(PartEvent):
    """The activation's task has ended; ``own`` is what the agent keeps from now on."""

    key: str
    own: JsonObject | None = None


@attrs.frozen
class CloseArrived(PartEvent):
    """A session is to be freed; answered by ``SessionClosed`` or ``Refuse``."""

    request: int
    key: str
    episode: EpisodeId


@attrs.frozen
class RequestLeft(PartEvent):
    """The client of a seed that waits, or of a close, has gone away."""

    request: int


@attrs.frozen
class SessionOpened(PartAction):
    """Answer a seed: the session exists."""

    request: int


@attrs.frozen
class SessionClosed(PartAction):
    """Answer a close: the session does not exist any more."""

    request: int


@attrs.frozen
class StartActivation(PartAction):
    """Start the task of an activation.

    ``continuation`` is the restored state of its turn loop, None to begin at the
    beginning; ``own`` is what the agent keeps of the session.
    """

    request: int
    key: str
    continuation: JsonObject | None
    own: JsonObject


@attrs.frozen
class LoopProceeds(PartAction):
    """Let the activation go on."""

    key: str


@attrs.frozen
class CancelActivation(PartAction):
    """Cancel the task of the activation. Said once in an activation's life."""

    key: str
