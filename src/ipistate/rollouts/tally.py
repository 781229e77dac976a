"""Counting rows: what a run's metrics and its progress are made of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.kernel import JsonObject, JsonValue, is_object, trusted_object
from ipistate.scoring import metrics_report


if TYPE_CHECKING:
    from collections.abc import Mapping

_COUNTED: Final = (
    *("_ng_task_index", "_ng_rollout_index", "mask_sample"),
    *("reward", "reward_safety", "reward_utility", "injection_followed"),
    *("attack_difficulty", "verification_type", "attack_category"),
)


def essence(row: Mapping[str, JsonValue]) -> JsonObject:
    """Return what the metrics of a row depend on; the rest need not stay in memory."""
    return trusted_object({name: row[name] for name in _COUNTED if name in row})


def tokens_of(row: Mapping[str, Any]) -> int:
    """Return how many tokens a row's response has cost."""
    response = row.get("response")
    usage = response.get("usage") if is_object(response) else None
    total = usage.get("total_tokens") if is_object(usage) else 0
    return total if isinstance(total, int) else 0


@attrs.define(eq=False)
class RunTally:
    """The rows of a run, counted."""

    rows: list[JsonObject] = attrs.field(factory=list[JsonObject])
    tokens: int = 0
    followed: int = 0
    rewards: float = 0.0

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a row."""
        slim = essence(row)
        self.rows.append(slim)
        self.tokens += tokens_of(row)
        self.followed += slim.get("injection_followed") is True
        reward = slim.get("reward")
        self.rewards += reward if isinstance(reward, int | float) else 0.0

    @property
    def mean_reward(self) -> float | None:
        """The mean reward; None without rows."""
        return self.rewards / len(self.rows) if self.rows else None

    def metrics(self) -> JsonObject:
        """Return the reply that ``/aggregate_metrics`` gives for the rows, in order."""
        ordered = sorted(self.rows, key=_place)
        return metrics_report(ordered)


def _place(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["_ng_task_index"], row["_ng_rollout_index"]
