"""Policies by their names: the built-in ones, and those of the user's own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, cast

import click

from ipistate.cli.imported import imported
from ipistate.policies import POLICIES, policy_of


if TYPE_CHECKING:
    from ipistate.agents import Policy
    from ipistate.policies import PolicyOptions


if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    # The oldest click that is allowed has no type parameter here.
    _TextType = click.ParamType


class PolicyName(_TextType):
    """A built-in policy, or ``MODULE:NAME``, which is imported to be checked."""

    name = "policy"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Check a name.

        Raises:
            BadParameter: There is no such policy.
        """
        name = str(value)
        if ":" in name:
            _own(name)
        elif name not in POLICIES:
            known = ", ".join(map(repr, POLICIES))
            self.fail(f"{name!r} is not one of {known}, nor MODULE:NAME.", param, ctx)
        return name


def opened_policy(
    name: str, options: PolicyOptions
) -> AbstractAsyncContextManager[Policy]:
    """Make a policy, which is open inside ``async with``."""
    return _own(name) if ":" in name else policy_of(name, options)


def _own(name: str) -> AbstractAsyncContextManager[Policy]:
    found: Any = imported(name)
    if isinstance(found, type) or not hasattr(found, "respond"):
        found = _made(name, found)
    if hasattr(found, "__aenter__"):
        return cast("AbstractAsyncContextManager[Policy]", found)
    if not callable(getattr(found, "respond", None)) or not isinstance(
        getattr(found, "name", None), str
    ):
        raise click.BadParameter(
            f"{name!r} is no policy: it needs a name and a method respond"
        )
    return nullcontext(cast("Policy", found))


def _made(name: str, make: Any) -> Any:
    if not callable(make):
        message = f"{name!r} is no policy, and cannot be called to make one"
        raise click.BadParameter(message)
    try:
        return make()
    except Exception as error:
        message = f"{name!r} makes no policy: {type(error).__name__}: {error}"
        raise click.BadParameter(message) from error
