"""What makes a built-in container immutable: mutators that raise, copies that are free."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Self, TypeAlias

from ipistate.errors import ImmutableError


Refusing: TypeAlias = Callable[..., NoReturn]
"""The type of a method that raises."""


def refuse_change(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    """Stand in for a mutator.

    Raises:
        ImmutableError: Always.
    """
    kind = type(self).__name__
    raise ImmutableError(
        "immutable", f"{kind} is immutable; thaw() gives a copy that can be changed"
    )


class Immutable:
    """Base of containers that are complete when ``__new__`` returns them."""

    __slots__ = ()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
