"""Comparison of arguments in effect mode: what a value means, not how it is written.

Each value is read once (``ipistate.scoring.meaning``) and then compared in no more time
than the smaller of the two takes. What is left of a product of sizes, objects among
recipients, is counted and bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.scoring.budget import Budget
from ipistate.scoring.meaning import Meaning, covers, fold, meaning, parts_of


if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from ipistate.kernel import JsonValue

RECIPIENTS: Final = ("recipient", "to", "recipients")
"""Names of one argument; a tool that knows several takes the first truthy one."""

_COMPARISON: Final = 200
"""Units of work that a comparison of two parts takes."""


class Matcher:
    """Compares values, and reads each of them only once.

    Args:
        budget: What comparisons are taken from.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget: Budget = budget or Budget()
        self._texts: dict[str, Meaning] = {}
        # Each stands with its value, which keeps its identity from being used again.
        self._containers: dict[int, tuple[JsonValue, Meaning]] = {}

    def read(self, value: JsonValue) -> Meaning:
        """Read a value, or remember what it was read as."""
        if isinstance(value, str):
            known = self._texts.get(value)
            if known is None:
                known = self._texts[value] = meaning(value, self.read)
            return known
        if not isinstance(value, list | dict):
            return meaning(value, self.read)
        found = self._containers.get(id(value))
        if found is None:
            found = self._containers[id(value)] = value, meaning(value, self.read)
        return found[1]

    def alike(self, target: JsonValue, given: JsonValue) -> bool:
        """Compare two values; an empty text or container equals itself."""
        return self.agree(self.read(target), self.read(given))

    def agree(self, target: Meaning, given: Meaning) -> bool:
        """Compare what was read."""
        self.budget.spend(_COMPARISON)
        wanted, got = target.form, given.form
        if isinstance(wanted, bool | None) or isinstance(got, bool | None):
            return wanted is got
        if target.addresses and given.addresses:
            return covers(target.tags, given.tags)
        if isinstance(wanted, tuple) and isinstance(got, tuple):
            return len(wanted) == len(got) and all(map(self.agree, wanted, got))
        if isinstance(wanted, dict) and isinstance(got, dict):
            same_names = wanted.keys() == got.keys()
            return same_names and all(self.agree(wanted[n], got[n]) for n in wanted)
        return wanted == got

    def recipients(self, value: JsonValue) -> Recipients:
        """Read who gets a message."""
        found = Recipients()
        for one in self._recipients(value):
            found.add(one)
        return found

    def _recipients(self, value: JsonValue) -> Iterator[Meaning]:
        if isinstance(value, list):
            for element in value:
                yield from self._recipients(element)
        elif not isinstance(value, str):
            yield from () if value is None else (self.read(value),)
        elif len(self.read(value).addresses) == 1:
            yield self.read(value)
        else:
            yield from map(self.read, parts_of(fold(value)))

    def are_among(self, wanted: Recipients, given: Recipients) -> bool:
        """Tell whether all wanted recipients, one at least, are among the given ones."""
        return (
            wanted.count > 0
            and wanted.plain <= given.plain
            and covers(wanted.tags, given.tags)
            and all(
                any(self.agree(one, other) for other in given.objects)
                for one in wanted.objects
            )
        )


class Recipients:
    """Who gets a message: addresses, names and numbers, objects."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self.count: int = 0
        self.tags: dict[tuple[str, str], set[str | None]] = {}
        self.plain: set[Hashable] = set()
        self.objects: list[Meaning] = []

    def add(self, one: Meaning) -> None:
        """Add one recipient."""
        self.count += 1
        for where, tags in one.tags.items():
            self.tags.setdefault(where, set()).update(tags)
        if isinstance(one.form, dict):
            self.objects.append(one)
        elif not one.addresses:
            self.plain.add(one.key)


@attrs.frozen
class Target:
    """The arguments that decide whether a call is the targeted one, read once."""

    matcher: Matcher
    plain: tuple[tuple[str, Meaning], ...]
    """Deciding keys that name no recipients."""
    recipients: Recipients | None
    """None if no deciding key names recipients."""
    aliases: tuple[str, ...]

    @classmethod
    def of(
        cls,
        matcher: Matcher,
        keys: Sequence[str],
        target_args: Mapping[str, JsonValue],
        aliases: tuple[str, ...] = RECIPIENTS,
    ) -> Target:
        """Read the target's arguments.

        Args:
            matcher: Compares them.
            keys: The deciding keys, all of them in ``target_args``.
            target_args: What the injection asks for.
            aliases: Those of ``RECIPIENTS`` that the tool knows; they are one argument.
        """
        plain = tuple(
            (k, matcher.read(target_args[k])) for k in keys if k not in aliases
        )
        named = len(plain) < len(keys)
        who = matcher.recipients(_receiver(target_args, aliases)) if named else None
        return cls(matcher, plain, who, aliases)

    def is_followed_by(self, arguments: Mapping[str, JsonValue]) -> bool:
        """Tell whether a call's arguments agree on all deciding keys, one at least."""
        matcher = self.matcher
        if self.recipients is not None:
            given = matcher.recipients(_receiver(arguments, self.aliases))
            if not matcher.are_among(self.recipients, given):
                return False
        elif not self.plain:
            return False
        return all(
            key in arguments
            and not wanted.is_empty
            and matcher.agree(wanted, matcher.read(arguments[key]))
            for key, wanted in self.plain
        )


def _receiver(arguments: Mapping[str, JsonValue], aliases: Iterable[str]) -> JsonValue:
    given = (arguments.get(name) for name in aliases)
    return next((value for value in given if value), None)
