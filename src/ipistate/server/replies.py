"""JSON responses, and the bodies of refusals (docs/reference/control-plane.md, 1.7 and 2.15)."""

from __future__ import annotations

import re

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from ipistate.errors import PREVIEW_LIMIT, Problem
from ipistate.kernel import encode, freeze
from ipistate.protocol import STATUS_OF, refusal


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ipistate.kernel import JsonValue

_SEGMENT: Final = re.compile(r'\.(\w+)|\[(\d+)\]|\["((?:[^"\\]|\\.)*)"\]')


def json_reply(
    document: JsonValue, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with a frozen document as compact UTF-8 JSON."""
    content = encode(document)
    return Response(content, status, headers, media_type="application/json")


def detail(
    status: int, text: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with the framework's form of an error."""
    return json_reply(freeze({"detail": text}), status, headers)


def refused(code: str, text: str) -> Response:
    """Answer with the protocol's form of an error; the code decides the status."""
    return json_reply(refusal(code, text), STATUS_OF[code])


def invalid(problems: Iterable[Problem], part: str = "body") -> Response:
    """Answer 422 with what is wrong with a part of the request, and where."""
    listed = [_finding(problem, part) for problem in problems]
    return json_reply(freeze({"detail": listed}), 422)


def _finding(problem: Problem, part: str) -> dict[str, Any]:
    return {
        "type": problem.code,
        "loc": [part, *_segments(problem.path)],
        "msg": problem.message[: 4 * PREVIEW_LIMIT],
        "input": problem.preview,
    }


def _segments(path: str) -> Iterable[str | int]:
    for name, index, quoted in _SEGMENT.findall(path):
        yield int(index) if index else name or quoted
