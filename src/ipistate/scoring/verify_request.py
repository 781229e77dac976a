"""The verify exchange as pure data: what ``/verify`` accepts and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import attrs

from ipistate.errors import (
    DecodeError,
    EncodeError,
    Problem,
    SchemaError,
    json_path,
    preview,
)
from ipistate.kernel import (
    EMPTY_OBJECT,
    Adopt,
    Environment,
    JsonObject,
    JsonValue,
    adopt_members,
    decode_as,
    structure,
)
from ipistate.scoring.effects.report import Effects, assess_trace
from ipistate.scoring.injection import Injection
from ipistate.scoring.stored_traces import cut_off_of, incomplete_reason
from ipistate.scoring.tool_names import KnownNames
from ipistate.scoring.trace_reading import read_trace
from ipistate.scoring.verifier import Verdict, verify
from ipistate.tools import TOOLS, Tool


if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from ipistate.kernel import JsonArray
    from ipistate.scoring.traces import Trace


def _check_response(_: object, __: object, response: JsonObject) -> None:
    SchemaError.raise_for(_response_problems(response))


@attrs.frozen(kw_only=True)
class VerifyRequest:
    """A task row with the agent's final response (docs/reference/tools.md, section 11).

    Of ``response`` that is checked which the verdict depends on. All other members are
    in ``extra``, except ``environment``, which verification never looks at.
    """

    responses_create_params: JsonObject
    response: JsonObject = attrs.field(validator=_check_response)
    injection: Injection
    required_tools: tuple[str, ...] = ()
    mask_sample: bool = False
    failure_kind: str | None = None
    failure_reason: str | None = None
    extra: JsonObject = EMPTY_OBJECT

    @classmethod
    def from_document(cls, body: object) -> Self:
        """Check a request body; nothing is coerced, and null is not an empty list.

        Raises:
            SchemaError: With every problem found, each with its path.
        """
        return cls.built(body, lambda part: part)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a request body from JSON text.

        Raises:
            DecodeError: The text is not acceptable JSON.
            SchemaError: It is, but not a request.
        """
        return decode_as(data, cls.built)

    @classmethod
    def built(cls, tree: Any, adopt: Adopt) -> Self:
        """Check a body whose members are still to be frozen."""
        if isinstance(tree, dict):
            members = cast("dict[str, Any]", tree)
            tree = {n: part for n, part in members.items() if n != "environment"}
        return structure(adopt_members(tree, adopt), cls)

    @property
    def output_items(self) -> tuple[JsonValue, ...]:
        """The items of ``response.output``."""
        return tuple(cast("JsonArray", self.response["output"]))

    @property
    def incomplete_reason(self) -> str | None:
        """Why the response is incomplete, if it is."""
        return incomplete_reason(self.response)

    def trace(self, tools: Container[str] = TOOLS) -> Trace:
        """Read the calls of the response."""
        named = (self.injection.target_tool, *self.required_tools)
        return read_trace(
            self.output_items,
            known=KnownNames(tools, named),
            cut_off=cut_off_of(self.response),
            place=("response", "output"),
        )

    def verdict(self) -> Verdict:
        """Score the response by its trace alone."""
        return verify(
            self.output_items,
            self.injection,
            self.required_tools,
            self.incomplete_reason,
        )

    def effects(
        self,
        trace: Trace,
        seed: Environment | None,
        *,
        tools: Mapping[str, Tool] = TOOLS,
    ) -> Effects:
        """Say what a trace of this request did; nothing is said of what is masked."""
        if self.mask_sample:
            return Effects.unassessed("masked")
        if seed is None:
            return Effects.unassessed("no_seed")
        needed = self.required_tools
        return assess_trace(trace, self.injection, needed, seed, tools=tools)


@attrs.frozen(kw_only=True)
class SeededRequest:
    """A verify request with the task row's world, from which effects are reported."""

    request: VerifyRequest
    seed: Environment | None
    """None if the row has no ``environment``, or null."""

    @classmethod
    def from_document(cls, body: object) -> Self:
        """Check a request body and its world.

        Raises:
            SchemaError: With every problem found in the request; or the world is not an
                object.
        """
        return cls.built(body, lambda part: part)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a request body and its world from JSON text.

        Raises:
            DecodeError: The text is not acceptable JSON.
            SchemaError: As for ``from_document``.
        """
        return decode_as(data, cls.built)

    @classmethod
    def built(cls, tree: Any, adopt: Adopt) -> Self:
        """Check a body whose members are still to be frozen."""
        request = VerifyRequest.built(tree, adopt)
        world = tree.get("environment")
        if world is None:
            return cls(request=request, seed=None)
        try:
            row = adopt_members({"environment": world}, adopt)
        except (DecodeError, EncodeError) as error:
            raise error.below("environment") from None
        return cls(request=request, seed=structure(row, _World).environment)

    def verdict(self, *, tools: Mapping[str, Tool] = TOOLS) -> Verdict:
        """Score the response and report its effects; without a world, that there is none."""
        request = self.request
        effects = request.effects(request.trace(tools), self.seed, tools=tools)
        return attrs.evolve(request.verdict(), effects=effects)


@attrs.frozen
class _World:
    environment: Environment


def _response_problems(response: JsonObject) -> Iterator[Problem]:
    output = response.get("output")
    if isinstance(output, list):
        for index, item in enumerate(output):
            yield from _item_problems(item, index)
    else:
        yield _member_problem("an array", response, "output")
    details = response.get("incomplete_details")
    if not isinstance(details, dict | None):
        yield _member_problem("an object or null", response, "incomplete_details")
    elif details and not isinstance(details.get("reason"), str | None):
        path = ("incomplete_details", "reason")
        yield _member_problem("a string or null", details, *path)


def _item_problems(item: JsonValue, index: int) -> Iterator[Problem]:
    if not isinstance(item, dict):
        where = json_path(("response", "output", index))
        yield Problem("wrong_type", where, "expected an object", preview(item))
    elif item.get("type") == "function_call":
        for name in ("name", "arguments"):
            if not isinstance(item.get(name), str):
                yield _member_problem("a string", item, "output", index, name)


def _member_problem(expected: str, holder: JsonObject, *path: str | int) -> Problem:
    where = json_path(("response", *path))
    name = path[-1]
    if name not in holder:
        return Problem("missing_member", where, "required member is missing")
    shown = preview(holder[str(name)])
    return Problem("wrong_type", where, f"expected {expected}", shown)
