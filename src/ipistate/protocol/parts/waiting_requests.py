"""Requests by their number, in the order they came: an immutable map, cheap to change.

A plain dict would be copied on every change, which is quadratic when thousands of
requests wait. This one is made of small pieces, and a change copies one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from types import MappingProxyType
from typing import Final, Self

import attrs

from ipistate.protocol.events import RequestArrived


_PIECE: Final = 64
_EMPTY: Final[Mapping[int, RequestArrived]] = MappingProxyType({})


@attrs.frozen(eq=False, repr=False)
class WaitingRequests(Mapping[int, RequestArrived]):
    """Read like any mapping; ``added`` and ``removed`` give another one."""

    _older: tuple[Mapping[int, RequestArrived], ...] = ()
    """Full when they were left, none of them empty."""
    _newest: Mapping[int, RequestArrived] = _EMPTY

    @classmethod
    def of(cls, events: Iterable[RequestArrived]) -> Self:
        """Put many requests in order at once."""
        rest = iter(events)
        pieces: list[Mapping[int, RequestArrived]] = []
        while piece := {event.request: event for event in islice(rest, _PIECE)}:
            pieces.append(piece)
        return cls(tuple(pieces))

    def added(self, event: RequestArrived) -> WaitingRequests:
        """Put a request last."""
        if len(self._newest) < _PIECE:
            return WaitingRequests(self._older, {**self._newest, event.request: event})
        return WaitingRequests((*self._older, self._newest), {event.request: event})

    def removed(self, request: int) -> WaitingRequests:
        """Leave out a request, if it is here."""
        if request in self._newest:
            return WaitingRequests(self._older, _without(self._newest, request))
        for place, piece in enumerate(self._older):
            if request in piece:
                rest = _without(piece, request)
                kept = (rest,) if rest else ()
                older = (*self._older[:place], *kept, *self._older[place + 1 :])
                return WaitingRequests(older, self._newest)
        return self

    def events(self) -> Iterator[RequestArrived]:
        """Go through the requests themselves, without looking each of them up."""
        pieces = (*self._older, self._newest)
        return chain.from_iterable(piece.values() for piece in pieces)

    def __getitem__(self, request: int) -> RequestArrived:
        if request in self._newest:
            return self._newest[request]
        for piece in self._older:
            if request in piece:
                return piece[request]
        raise KeyError(request)

    def __iter__(self) -> Iterator[int]:
        return chain(*self._older, self._newest)

    def __len__(self) -> int:
        return sum(map(len, self._older), len(self._newest))

    def __repr__(self) -> str:
        return f"Requests({dict(self)!r})"


def _without(
    piece: Mapping[int, RequestArrived], request: int
) -> Mapping[int, RequestArrived]:
    rest = dict(piece)
    del rest[request]
    return rest
