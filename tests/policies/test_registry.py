"""Policies by name, and what each needs before it can begin."""

from __future__ import annotations

import subprocess
import sys

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.errors import IpiStateError
from ipistate.policies import (
    POLICIES,
    Api,
    Endpoint,
    Patience,
    PolicyOptionError,
    PolicyOptions,
    Sampling,
    Scripts,
    api_key,
    policy_of,
)


pytestmark = pytest.mark.anyio
URL = "http://127.0.0.1:8000/v1"


def refused(*args: object, **kwargs: str) -> PolicyOptionError:
    """Return the error that a function raises."""
    function, *rest = args
    with pytest.raises(PolicyOptionError) as caught:
        function(*rest, **kwargs)  # type: ignore[operator]
    return caught.value


@pytest.mark.parametrize("name", POLICIES)
async def test_every_policy_is_made_by_its_name(name: str, scripts: Scripts) -> None:
    """With all options given, each name leads to a policy of that name."""
    options = PolicyOptions(scripts=scripts, endpoint=Endpoint(url=URL, model="m"))
    async with policy_of(name, options) as policy:
        assert name == policy.name


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    """Whoever misspells a name reads those that there are."""
    error = refused(policy_of, "carefull")

    assert "unknown_policy" == error.code
    assert all(name in error.message for name in POLICIES)


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("careful", "--trajectories"),
        ("gullible", "--trajectories"),
        ("openai", "--model-url"),
    ],
)
def test_a_missing_option_is_named(name: str, option: str) -> None:
    """A policy that lacks something says which option gives it."""
    error = refused(policy_of, name)

    assert "missing_option" == error.code
    assert option in error.message


def test_no_trajectories_are_as_bad_as_none() -> None:
    """A file without a usable line does not start a run that can only fail."""
    empty = PolicyOptions(scripts=Scripts.of([], {}))

    assert "missing_option" == refused(policy_of, "careful", empty).code


@pytest.mark.parametrize(
    "url",
    [
        "",
        "model.test/v1",
        "ftp://model.test/v1",
        "http://",
        "http://:80/v1",
        "http://model.test:x/v1",
        "http://model.test:0/v1",
        "http://model.test/v1?key=s3cret",
        "http://model.test/v1#s3cret",
        "http://user:s3cret@model.test/v1",
        "http://[::1/v1",
        "http://model.test/ v1\n",
        "http://mödel.test/v1",
    ],
)
def test_a_url_that_is_no_base_is_refused(url: str) -> None:
    """What cannot be a base is refused, and not repeated, as it may hold a secret."""
    error = refused(Endpoint, url=url, model="m")

    assert "invalid_model_url" == error.code
    assert "s3cret" not in str(error)


@given(st.text())
def test_any_url_is_taken_or_refused(url: str) -> None:
    """No text leads to another error."""
    try:
        endpoint = Endpoint(url=url, model="m")
    except IpiStateError:
        return
    assert endpoint.url == url.rstrip("/")


def test_a_slash_at_the_end_makes_no_difference() -> None:
    """A base with a slash is the one without."""
    assert Endpoint(url=URL, model="m") == Endpoint(url=f"{URL}/", model="m")


@pytest.mark.parametrize("key", ["", "a b", "a\n", "ä", "a\x00"])
def test_a_key_that_cannot_stand_in_a_header_is_refused(key: str) -> None:
    """A key with a line end would be another header."""
    error = refused(Endpoint, url=URL, model="m", key=key)

    assert "invalid_api_key" == error.code
    assert key not in str(error) or not key.strip()


def test_a_key_comes_from_the_environment() -> None:
    """The named variable has the key; there is no other one that stands in for it."""
    environ = {"MINE": " sk-1\n", "BLANK": " ", "OPENAI_API_KEY": "sk-2"}

    assert "sk-1" == api_key("MINE", environ)
    for name in ("BLANK", "NOBODYS"):
        error = refused(api_key, name, environ)
        assert "missing_api_key" == error.code
        assert name in str(error)


@pytest.mark.parametrize(
    ("record", "members"),
    [
        (Sampling, {"temperature": -0.1}),
        (Sampling, {"top_p": 1.5}),
        (Sampling, {"max_output_tokens": 0}),
        (Patience, {"connect": 0}),
        (Patience, {"read": -1.0}),
        (Patience, {"tries": 0}),
        (Patience, {"backoff": -1.0}),
    ],
)
def test_settings_out_of_range_are_refused(
    record: type[Patience | Sampling], members: dict[str, float]
) -> None:
    """A number that makes no sense is refused where it is given."""
    with pytest.raises(ValueError, match=next(iter(members))):
        record(**members)  # type: ignore[arg-type]


def test_a_description_has_what_decides_replies() -> None:
    """Runs are compared by it: another model or temperature is another run."""
    one = Endpoint(url=URL, model="m", key="sk-1", sampling=Sampling(top_p=0.5))
    patient = attrs.evolve(one, key=None, patience=Patience(tries=1), concurrency=1)
    other = attrs.evolve(one, api=Api.CHAT)

    assert one.to_document() == patient.to_document()
    assert one.to_document() != other.to_document()
    assert 0.5 == one.to_document()["top_p"]


@pytest.mark.parametrize("missing", ["aiohttp", "tenacity"])
def test_only_openai_needs_its_extra(missing: str) -> None:
    """Without the extra the others work, and openai says how to get it."""
    code = f"""
import sys
sys.modules[{missing!r}] = None
from ipistate.policies import Endpoint, PolicyOptions, policy_of
policy_of("random")
try:
    policy_of("openai", PolicyOptions(endpoint=Endpoint(url={URL!r}, model="m")))
except ModuleNotFoundError as error:
    print(error.name, error)
"""
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=True)

    assert told.stdout.startswith(missing)
    assert "pip install 'ipistate[run]'" in told.stdout
