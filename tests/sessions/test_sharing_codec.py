"""Sharing while reading: the same states as without it, equal ones as one object."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ipistate import Environment
from ipistate.kernel import decode_as
from ipistate.sessions import EnvironmentCodec, SessionCodec, SharingCodec
from ipistate.testing import json_objects


@given(st.lists(json_objects(max_leaves=6), max_size=4))
def test_states_are_those_of_the_codec(worlds: list[dict[str, object]]) -> None:
    """Reading with sharing and writing again gives the texts that were read."""
    plain, sharing = EnvironmentCodec(), SharingCodec(EnvironmentCodec())
    for world in worlds:
        text = plain.encode(Environment.of(world))

        assert text == sharing.encode(decode_as(text, sharing.decode))


def test_b6_equal_environments_are_one_state() -> None:
    """A commit knows the text of a state by the object, so this saves writing, too."""
    sharing = SharingCodec(EnvironmentCodec())
    text = EnvironmentCodec().encode(Environment.of({"a": {"b": {"c": 1}}}))
    first, second = (decode_as(text, sharing.decode) for _ in range(2))

    assert first is second


def test_b6_sessions_share_their_worlds() -> None:
    """Sessions are values of their own, and their seeds are one object."""
    sharing = SharingCodec(SessionCodec())
    text = (
        b'{"schema_version":2,"environment":{"a":{"b":{"c":1}}},"seed":null,"log":[]}'
    )
    first, second = (decode_as(text, sharing.decode) for _ in range(2))

    assert first.seed.document is second.seed.document
