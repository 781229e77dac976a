"""The records of a policy model: the rows of an episode's calls, and where one was cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from ipistate.capture import (
    GenerationCutRecord,
    LedgerRow,
    row_line,
    row_of,
    staging_keys,
)
from ipistate.errors import SchemaError, preview
from ipistate.kernel import (
    JsonValue,
    decode,
    encode,
    json_line,
    structure,
    trusted_array,
    trusted_object,
    unstructure,
)
from ipistate.protocol.episode import EpisodeId
from ipistate.protocol.records import read_line


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from ipistate.kernel import Adopt


@attrs.frozen(kw_only=True)
class ModelRecord:
    """One episode of a policy model in a checkpoint."""

    episode_id: EpisodeId
    rows: tuple[LedgerRow, ...] = ()
    generation_cuts: tuple[GenerationCutRecord, ...] = ()
    """At most one."""

    @property
    def staging_keys(self) -> tuple[str, ...]:
        """The staged entries that it needs, sorted, each once."""
        cut = {
            key for one in self.generation_cuts for key in one.continuation.staging_keys
        }
        return tuple(sorted({*staging_keys(self.rows), *cut}))


@attrs.frozen(kw_only=True)
class _ModelLine:
    episode_id: EpisodeId
    rows: tuple[Any, ...]
    generation_cuts: tuple[GenerationCutRecord, ...]


class ModelRecords:
    """Lines of a policy model: compact JSON, rows as their ledger has them."""

    kind: ClassVar[str] = "model"

    def lines(self, records: Iterable[ModelRecord]) -> Iterator[bytes]:
        """Write one line for each record, newline included."""
        for record in records:
            members: dict[str, JsonValue] = {
                "episode_id": unstructure(record.episode_id),
                "rows": trusted_array(decode(row_line(row)) for row in record.rows),
                "generation_cuts": trusted_array(
                    unstructure(cut) for cut in record.generation_cuts
                ),
            }
            yield json_line(encode(trusted_object(members))) + b"\n"

    def reader(
        self, scope: Collection[EpisodeId] | None
    ) -> Callable[[bytes], ModelRecord | None]:
        """Return what reads a line; it gives None for an episode outside the scope.

        It raises a ``DecodeError`` or a ``SchemaError`` for a line that is no record.
        """
        return lambda line: read_line(line, scope, _record)

    def key(self, record: ModelRecord) -> str:
        """Return the capture key."""
        return record.episode_id.capture_key


def _record(tree: Any, _: Adopt) -> ModelRecord:
    found = structure(tree, _ModelLine)
    if len(found.generation_cuts) > 1:
        shown = preview(len(found.generation_cuts))
        message = "a record has at most one cut"
        raise SchemaError("too_many_cuts", message, "$.generation_cuts", shown)
    rows: list[LedgerRow] = []
    for place, row in enumerate(found.rows):
        try:
            rows.append(row_of(row))
        except SchemaError as error:
            raise error.below("rows", place) from None
    return ModelRecord(
        episode_id=found.episode_id,
        rows=tuple(rows),
        generation_cuts=found.generation_cuts,
    )
