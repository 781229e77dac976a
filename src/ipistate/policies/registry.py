"""The built-in policies by name, each made from the options that it needs."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol, cast, runtime_checkable

import attrs

from ipistate.errors import preview
from ipistate.policies.arbitrary import RandomPolicy
from ipistate.policies.endpoint import PolicyOptionError
from ipistate.policies.scripted import ScriptedPolicy


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ipistate.agents import Policy
    from ipistate.kernel import JsonObject
    from ipistate.policies.endpoint import Endpoint
    from ipistate.policies.parameters import RowParameters
    from ipistate.policies.scripted import Scripts, Temper


@runtime_checkable
class ForRows(Protocol):
    """A policy that can depend on more of a row than its messages and tools."""

    def for_row(self, params: JsonObject) -> Policy:
        """Return the policy for one row."""
        ...


@runtime_checkable
class ForEpisodes(Protocol):
    """A policy whose model is told which episode asks."""

    def for_episode(self, prefix: str) -> Policy:
        """Return the policy for one episode."""
        ...


@runtime_checkable
class Requesting(Protocol):
    """A policy that tells what it asks a model of a row."""

    @property
    def parameters(self) -> RowParameters:
        """What is sent of the row's parameters, and what is not."""
        ...


@attrs.frozen(kw_only=True)
class PolicyOptions:
    """What policies are made from; each takes its own and leaves the others."""

    scripts: Scripts | None = attrs.field(default=None, repr=False)
    """Needed by ``careful`` and ``gullible``."""
    seed: int = 0
    """Used by ``random``."""
    endpoint: Endpoint | None = None
    """Needed by ``openai``."""


def policy_of(
    name: str, options: PolicyOptions | None = None
) -> AbstractAsyncContextManager[Policy]:
    """Make a policy, which is open inside ``async with``.

    Raises:
        PolicyOptionError: ``unknown_policy``, or ``missing_option`` with what it lacks.
        ModuleNotFoundError: It needs an extra that is not installed.
    """
    make = POLICIES.get(name)
    if make is None:
        known = ", ".join(POLICIES)
        message = f"there is no such policy; there are {known}"
        raise PolicyOptionError("unknown_policy", message, preview=preview(name))
    return make(options or PolicyOptions())


def for_row(policy: Policy, params: JsonObject) -> Policy:
    """Return a policy as a task row wants it, whose ``responses_create_params`` are given.

    A model then samples as the row says, where nothing else was chosen, and is asked
    what else the row asks; others are as they were.
    """
    if isinstance(policy, ForRows):
        return policy.for_row(params)
    return policy


def for_episode(policy: Policy, prefix: str) -> Policy:
    """Return a policy that asks for one episode, whose rollout prefix is given.

    A model's server that takes part in checkpoints knows its calls by it; policies that
    ask no model are as they were.
    """
    if isinstance(policy, ForEpisodes):
        return policy.for_episode(prefix)
    return policy


def parameters_of(policy: Policy) -> RowParameters | None:
    """Return what a policy sends of a row; None for one that sends nothing anywhere."""
    return policy.parameters if isinstance(policy, Requesting) else None


def _scripted(temper: Temper) -> Callable[[PolicyOptions], _Opened]:
    def make(options: PolicyOptions) -> _Opened:
        if not options.scripts:
            raise PolicyOptionError(
                "missing_option",
                f"the {temper} policy plays reference trajectories, and there are none: "
                "give the file that belongs to the tasks (--trajectories)",
            )
        return nullcontext(ScriptedPolicy(temper, options.scripts))

    return make


def _openai(options: PolicyOptions) -> _Opened:
    if options.endpoint is None:
        raise PolicyOptionError(
            "missing_option",
            "the openai policy asks a model: give its endpoint and its name (--model-url "
            "and --model)",
        )
    # The only one that needs an HTTP client.
    module = import_module("ipistate.policies.openai")
    return cast("_Opened", module.OpenAIPolicy(options.endpoint))


if TYPE_CHECKING:
    _Opened = AbstractAsyncContextManager[Policy]

POLICIES: Final[Mapping[str, Callable[[PolicyOptions], _Opened]]] = MappingProxyType(
    {
        "careful": _scripted("careful"),
        "gullible": _scripted("gullible"),
        "random": lambda options: nullcontext(RandomPolicy(options.seed)),
        "openai": _openai,
    }
)
"""How each policy is made."""
