"""``--verifier``: a function of the user's own, which cannot end a verb by surprise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

import click

from ipistate.cli.exits import RefusedInputError
from ipistate.cli.imported import imported
from ipistate.scoring import Verdict, VerifyRequest


if TYPE_CHECKING:
    Verifier: TypeAlias = Callable[[VerifyRequest], Verdict]


def own_verifier(_: object, __: object, name: str | None) -> Verifier | None:
    """Import a verifier.

    Raises:
        BadParameter: It cannot be imported or called.
    """
    if name is None:
        return None
    found = imported(name)
    if not callable(found):
        raise click.BadParameter(f"{name!r} is no function")
    score = cast("Callable[[VerifyRequest], object]", found)

    def scored(request: VerifyRequest) -> Verdict:
        try:
            verdict = score(request)
        except Exception as error:
            message = f"{name} failed: {type(error).__name__}: {error}"
            raise RefusedInputError(message) from error
        if not isinstance(verdict, Verdict):
            message = f"{name} returned no Verdict but a {type(verdict).__name__}"
            raise RefusedInputError(message)
        return verdict

    return scored
