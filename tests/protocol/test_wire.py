"""The names on the wire."""

from __future__ import annotations

from ipistate.protocol import EpisodeId, cookie_name, prefixed


def test_a_prefix_names_the_episode() -> None:
    """A path below an episode's prefix starts with its capture key; others stay."""
    episode = EpisodeId(rollout_id="ipi-7", attempt=1)

    assert prefixed("/verify", episode) == "/ng-rollout/ipi-7-a1/verify"
    assert prefixed("/verify", None) == "/verify"


def test_a_cookie_names_the_server_and_its_instance() -> None:
    """The cookie's name is the reference's class name and the instance's."""
    assert cookie_name("a") == "IPIResourcesServer___a"
