"""What an endpoint's failures mean: which may pass, which cannot, and what to do then."""

from __future__ import annotations

import re

from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import responses
from typing import TYPE_CHECKING, Any, Final

import attrs

from ipistate.agents import PolicyError
from ipistate.errors import DecodeError
from ipistate.kernel import decode, is_array, is_object


if TYPE_CHECKING:
    from collections.abc import Mapping

DETAIL_LIMIT: Final = 300
"""Characters of an endpoint's answer that an error repeats."""

_LATER: Final = frozenset({408, 409, 425})
_NEVER: Final = frozenset({501, 505})
_ADVICE: Final[Mapping[int, str]] = {
    401: "check the API key (--model-api-key-env)",
    403: "check the API key, and what it may do (--model-api-key-env)",
    404: "check the URL, the model's name and the API (--model-url, --model, --model-api)",
    405: "check the URL and the API (--model-url, --model-api)",
}
_CHAT: Final = "/chat/completions"
_REASONING: Final = re.compile(rb"reasoning(?!_effort)")
_OF_REASONING: Final = (
    "--send-reasoning-as says whether a chat is sent the model's reasoning, and as what"
)
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-correlation-id")


class EndpointError(PolicyError):
    """An endpoint gives no reply that can be used, and asking again is no use."""


class PassingError(EndpointError):
    """An endpoint gives no reply now, but may do so when it is asked again."""

    pause: float | None = None
    """Seconds after which the endpoint wants to be asked again, if it says so."""


@attrs.frozen
class EndpointAnswer:
    """What an endpoint has sent."""

    url: str
    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    content: bytes

    def told(self, text: str) -> str:
        """Say something about the answer: where it is from, and for which request."""
        return f"{shown(self.url)}: {text}{_request_id(self.headers)}"


def refusal(answer: EndpointAnswer, now: float) -> EndpointError:
    """Say what an answer means that has not the status of a success.

    Args:
        answer: The answer, without the key that it may repeat.
        now: Seconds since 1970, for answers that name a time.
    """
    status = answer.status
    said = f"HTTP {status} {responses.get(status, '')}".rstrip()
    told = answer.told(": ".join(filter(None, (said, detail(answer.content)))))
    hasty = status == HTTPStatus.TOO_MANY_REQUESTS and not _is_used_up(answer.content)
    if hasty or status in _LATER or (status >= 500 and status not in _NEVER):
        error = PassingError("rate_limited" if hasty else "endpoint_failed", told)
        error.pause = pause(answer.headers, now)
        return error
    if 300 <= status < 400:
        place = shown(answer.headers.get("location", "another place"))
        told += f"; it leads to {place}, which is not followed: give the right URL"
    elif status in _ADVICE:
        told += f"; {_ADVICE[status]}"
    elif answer.url.endswith(_CHAT) and _REASONING.search(answer.content):
        told += f"; {_OF_REASONING}"
    return EndpointError("endpoint_refused", told)


def _is_used_up(content: bytes) -> bool:
    # The same status as for haste, but waiting does not help.
    error = _error(content)
    return is_object(error) and "insufficient_quota" in (
        error.get("code"),
        error.get("type"),
    )


def pause(headers: Mapping[str, str], now: float) -> float | None:
    """Read how long to wait, as a number or as a time; None if nothing can be read."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _seconds(float(milliseconds) / 1000)
        wish = headers.get("retry-after", "")
        try:
            return _seconds(float(wish))
        except ValueError:
            return _seconds(parsedate_to_datetime(wish).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _seconds(number: float) -> float | None:
    return max(number, 0.0) if number < float("inf") else None


def _request_id(headers: Mapping[str, str]) -> str:
    # As the endpoint names it, to be asked about there.
    for name in _REQUEST_IDS:
        if found := headers.get(name):
            return f" (request {shown(found)[:80]})"
    return ""


def detail(content: bytes) -> str:
    """Return what a body says about an error, in one short line."""
    error = _error(content)
    if is_object(error):
        error = error.get("message") or error.get("code") or error.get("type")
    if isinstance(error, str):
        return shown(error)
    if content.lstrip()[:1] == b"<":
        return "a page, not JSON"
    return shown(content[: 4 * DETAIL_LIMIT].decode("utf-8", "replace"))


def _error(content: bytes) -> Any:
    try:
        document: Any = decode(content)
    except DecodeError:
        return None
    if is_array(document) and document:
        document = document[0]
    if not is_object(document):
        return None
    reports = (document.get(name) for name in ("error", "detail", "message"))
    return next(filter(None, reports), None)


def shown(text: str) -> str:
    """Write foreign text in one line of bounded length, without control characters."""
    line = " ".join(text[: 4 * DETAIL_LIMIT].split())
    clean = "".join(one if one.isprintable() else "�" for one in line)
    return clean if len(clean) <= DETAIL_LIMIT else f"{clean[:DETAIL_LIMIT]}…"
