"""Where a model is, how it samples, and how long one waits for it: settings as values."""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import attrs

from attrs.validators import and_, ge, gt, in_, le, lt, min_len, optional

from ipistate.errors import IpiStateError, preview
from ipistate.kernel import JsonObject


if TYPE_CHECKING:
    from collections.abc import Mapping


class PolicyOptionError(IpiStateError, ValueError):
    """A policy that does not exist, or an option that it lacks or cannot work with."""


class Api(StrEnum):
    """The form in which an endpoint takes conversations."""

    RESPONSES = "responses"
    CHAT = "chat"


REASONING_MEMBERS: Final = ("reasoning_content", "reasoning")
"""What chat endpoints call the reasoning of a message, the older name first."""


def _base(url: str) -> str:
    return url.rstrip("/")


def _check_url(_: object, __: object, url: str) -> None:
    if problem := _problem(url):
        message = f"the model's URL {problem}, like http://127.0.0.1:8000/v1"
        raise PolicyOptionError("invalid_model_url", message)


def _problem(url: str) -> str | None:
    # It may hold a secret, so it is not repeated.
    try:
        parts = urlsplit(url)
        port = parts.port != 0
    except ValueError:
        return "cannot be read; give a base URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname or not port:
        return "needs a scheme (http or https) and a host; give a base URL"
    if "@" in parts.netloc:
        return "holds a user or a password; give the key by itself, and a base URL"
    if parts.query or parts.fragment or not url.isascii() or not url.isprintable():
        return "has more than a host and a path; give a base URL"
    return None


def _check_key(_: object, __: object, key: str | None) -> None:
    if key is not None and not (
        key.isascii() and key.isprintable() and key and " " not in key
    ):
        message = "an API key is printable ASCII text without spaces, and not empty"
        raise PolicyOptionError("invalid_api_key", message)


def api_key(variable: str, environ: Mapping[str, str]) -> str:
    """Take an API key from an environment variable; there is no other place for it.

    Raises:
        PolicyOptionError: ``missing_api_key``: the variable is not set, or is blank.
    """
    if key := environ.get(variable, "").strip():
        return key
    raise PolicyOptionError(
        "missing_api_key",
        "the environment variable for the model's API key has no key; set it, or name "
        "the one that has it",
        preview=preview(variable),
    )


_POSITIVE: Final = and_(gt(0.0), lt(inf))
_NOT_NEGATIVE: Final = and_(ge(0.0), lt(inf))
_COUNT: Final = ge(1)


@attrs.frozen(kw_only=True)
class Sampling:
    """How the model draws its tokens; what is None is left to the endpoint."""

    temperature: float | None = attrs.field(
        default=None, validator=optional(_NOT_NEGATIVE)
    )
    top_p: float | None = attrs.field(
        default=None, validator=optional(and_(_NOT_NEGATIVE, le(1.0)))
    )
    max_output_tokens: int | None = attrs.field(
        default=None, validator=optional(_COUNT)
    )

    def or_of(self, params: JsonObject) -> Sampling:
        """Take from a row's ``responses_create_params`` what is not given here.

        A member that is no number, or out of range, is left to the endpoint too.
        """
        found: dict[str, Any] = {
            name: params[name]
            for name in params.keys() & _SAMPLED
            if getattr(self, name) is None and _fits(name, params[name])
        }
        return attrs.evolve(self, **found)


_SAMPLED: Final = {field.name for field in attrs.fields(Sampling)}


def _fits(name: str, value: Any) -> bool:
    kinds = (int,) if name == "max_output_tokens" else (int, float)
    try:
        return type(value) in kinds and bool(Sampling(**{name: value}))
    except ValueError:
        return False


@attrs.frozen(kw_only=True)
class Patience:
    """How long to wait for one reply, and how often to ask again."""

    connect: float = attrs.field(default=10.0, validator=_POSITIVE)
    """Seconds until there is a connection."""
    read: float = attrs.field(default=300.0, validator=_POSITIVE)
    """Seconds without a byte from the endpoint."""
    total: float = attrs.field(default=900.0, validator=_POSITIVE)
    """Seconds for one try, from its request to the end of its reply."""
    tries: int = attrs.field(default=6, validator=_COUNT)
    """How often a reply is asked for at most."""
    backoff: float = attrs.field(default=0.5, validator=_NOT_NEGATIVE)
    """Seconds that the first pause takes at most; each further one twice as many."""
    longest_pause: float = attrs.field(default=60.0, validator=_NOT_NEGATIVE)
    """Seconds that a pause takes at most, unless the endpoint asks for more."""
    longest_wish: float = attrs.field(default=300.0, validator=_NOT_NEGATIVE)
    """Seconds of pause that an endpoint may ask for; for more there is no other try."""


@attrs.frozen(kw_only=True)
class Endpoint:
    """A model behind an OpenAI-compatible endpoint.

    Raises:
        PolicyOptionError: The URL or the key cannot be used.
    """

    url: str = attrs.field(converter=_base, validator=_check_url)
    """Its base, which ``/responses`` or ``/chat/completions`` is appended to."""
    model: str = attrs.field(validator=min_len(1))
    api: Api = Api.RESPONSES
    key: str | None = attrs.field(default=None, repr=False, validator=_check_key)
    """Sent as a bearer token, and shown nowhere."""
    sampling: Sampling = Sampling()
    patience: Patience = Patience()
    concurrency: int = attrs.field(default=16, validator=_COUNT)
    """Requests under way at a time."""
    reasoning_as: str | None = attrs.field(
        default=None, validator=optional(in_(REASONING_MEMBERS))
    )
    """The member of chat messages in which the model's reasoning is sent back; None to
    leave it out, as most endpoints want it."""

    def to_document(self) -> JsonObject:
        """Write what decides the replies, for comparing runs: no key, no patience."""
        back = {"reasoning_as": self.reasoning_as} if self.reasoning_as else {}
        return JsonObject(
            {
                "url": self.url,
                "model": self.model,
                "api": str(self.api),
                **attrs.asdict(self.sampling),
                **back,
            }
        )
