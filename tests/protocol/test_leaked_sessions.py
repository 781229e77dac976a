"""Live sessions that a commit's scope does not name: reported, and left out by option."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ipistate.protocol import Settings, resources_participant
from ipistate.protocol import actions as do


if TYPE_CHECKING:
    from tests.protocol.conftest import Shell


def export_of(shell: Shell) -> do.Export:
    """Return the one export."""
    (found,) = [action for action in shell.log if isinstance(action, do.Export)]
    return found


def strict(shell: Shell) -> Shell:
    """Make a process that exports the scope only."""
    settings = Settings(instance="ipi")
    shell.model = None  # it knows nothing of this option
    shell.participant = resources_participant(settings, exports_scope_only=True)
    return shell


def test_c7_leaked_sessions_are_reported_and_exported(shell: Shell) -> None:
    """C7: without the option they are in the checkpoint, as in the reference."""
    for name in ("ipi-7", "ipi-8"):
        shell.seed(name, name)
    shell.prepared("c1")
    call = shell.commit("c1", scope=["ipi-7"])
    shell.publish()

    assert ("ipi-8",) == export_of(shell).leaked
    assert ["ipi-7", "ipi-8"] == shell.document(call)["episode_ids"]


def test_c7_only_the_scope_is_exported(shell: Shell) -> None:
    """C7: with it they are left out, and live on."""
    strict(shell)
    for name in ("ipi-7", "ipi-8"):
        shell.seed(name, name)
    shell.prepared("c1")
    call = shell.commit("c1", scope=["ipi-7"])
    shell.publish()
    shell.call("resume", "c1")

    assert ("ipi-8",) == export_of(shell).leaked
    assert ["ipi-7"] == shell.document(call)["episode_ids"]
    assert {"ipi-7", "ipi-8"} == set(shell.participant.part.sessions)
    assert "ipi-8" in shell.worlds


def test_c7_without_a_scope_nothing_leaks(shell: Shell) -> None:
    """C7: then every session is wanted."""
    strict(shell)
    shell.seed("s", "ipi-8")
    shell.prepared("c1")
    call = shell.commit("c1")
    shell.publish()

    assert () == export_of(shell).leaked
    assert ["ipi-8"] == shell.document(call)["episode_ids"]


@pytest.mark.parametrize("scope", [[], ["ipi-7-a1"]])
def test_c7_what_was_restored_and_not_claimed_is_no_leak(
    shell: Shell, scope: list[str]
) -> None:
    """C7: a commit deletes it or keeps it by the scope, with or without the option."""
    shell.seed("s", "ipi-7")
    shell.prepared("c1")
    shell.commit("c1")
    shell.publish()
    after = strict(type(shell)(shell.directories))
    after.restore(scope=["ipi-7"])
    after.read()
    after.call("resume", "r1")
    after.prepared("c2")
    call = after.commit("c2", "e", scope=scope)
    after.publish()

    assert () == export_of(after).leaked
    assert scope == after.document(call)["episode_ids"]


def test_c7_what_is_being_retired_is_no_leak(shell: Shell) -> None:
    """C7: it goes, and is in no checkpoint."""
    shell.seed("s", "ipi-7")
    shell.frees_at_once = False
    shell.retire("ipi-7", deadline=5)
    shell.pass_time(6)

    assert () == shell.participant.part.bindings.leaked(frozenset())
