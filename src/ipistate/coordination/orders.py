"""The fixed orders in which participants are asked (docs/reference/control-plane.md, section 5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ipistate.coordination.participants import Kind, Participant


if TYPE_CHECKING:
    from collections.abc import Iterable

StageOrder: TypeAlias = tuple[frozenset[Kind], ...]
Stage: TypeAlias = tuple[Participant, ...]
"""Participants that are asked at the same time."""

PREPARE: Final[StageOrder] = tuple(frozenset({kind}) for kind in Kind)
"""Environments park first; resources go last, since agents call them until they park."""

RESUME: Final[StageOrder] = PREPARE[::-1]
"""Nothing reopens before the servers that it calls."""

AT_ONCE: Final[StageOrder] = (frozenset(Kind),)
"""Everybody is frozen already, or fresh."""

RETIRE: Final[StageOrder] = (
    frozenset({Kind.ENVIRONMENT}),
    frozenset({Kind.AGENT}),
    frozenset({Kind.MODEL, Kind.RESOURCES}),
)
"""Callers before callees, so that nothing calls a server that has freed the attempt."""

_RANK: Final = {kind: rank for rank, kind in enumerate(Kind)}


def ordered(participants: Iterable[Participant]) -> tuple[Participant, ...]:
    """Sort participants by the order of a prepare, then by name."""
    return tuple(sorted(participants, key=lambda one: (_RANK[one.kind], one.name)))


def stages(order: StageOrder, participants: Iterable[Participant]) -> tuple[Stage, ...]:
    """Split participants into the stages of an order; empty stages are left out."""
    everybody = ordered(participants)
    split = (tuple(p for p in everybody if p.kind in kinds) for kinds in order)
    return tuple(stage for stage in split if stage)
