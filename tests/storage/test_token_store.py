"""Staged tokens on the disk: what is there stays as it is, and what is damaged says so."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from hypothesis import given
from hypothesis import strategies as st

from ipistate.capture import CaptureAdmission, Generation, StagedCall
from ipistate.storage import TokenStore, TokenStoreError


def staged(*generated: int) -> StagedCall:
    """Return a call that has generated these tokens."""
    return Generation(
        admission=CaptureAdmission(rollout_id="r", model_call_id="c"),
        prompt=(1, 2),
        generated=generated,
        logprobs=(-0.1,) * len(generated),
        output_limit=9,
        weight_version=1,
    ).staged()


KEYS = [
    "r/c",
    "__generation_cut__/r/c/3",
    "../../etc/passwd",
    ".",
    "..",
    "x" * 500,
    "ü",
]


@pytest.mark.parametrize("key", KEYS)
def test_what_is_put_is_found(tmp_path: Path, key: str) -> None:
    """Whatever its key, one entry is a file in the directory, and is read as it was."""
    store = TokenStore(tmp_path / "tokens")
    store.put(key, staged(3, 4))
    store.put(key, staged(3, 4))

    assert staged(3, 4) == TokenStore(tmp_path / "tokens").get(key)
    assert [tmp_path / "tokens"] == [*tmp_path.iterdir()]
    assert 1 == len([*(tmp_path / "tokens").iterdir()])


def test_an_entry_never_changes(tmp_path: Path) -> None:
    """Other tokens under its key are refused, and it stays."""
    store = TokenStore(tmp_path)
    store.put("k", staged(3))
    with pytest.raises(TokenStoreError, match="token_entry_conflict"):
        store.put("k", staged(4))

    assert staged(3) == store.get("k")


def test_an_entry_that_is_not_there(tmp_path: Path) -> None:
    """It is said to be missing."""
    with pytest.raises(TokenStoreError, match="token_entry_missing"):
        TokenStore(tmp_path).get("k")


@given(st.data())
def test_a_damaged_entry_is_never_taken(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Law: a changed byte is either without meaning or found."""
    root = tmp_path_factory.mktemp("tokens")
    store, call = TokenStore(root), attrs.evolve(staged(3, 4, 5))
    store.put("k", call)
    (path,) = root.iterdir()
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(
        st.integers(0, 255)
    )
    path.write_bytes(content)
    found: StagedCall | str
    try:
        found = store.get("k")
    except TokenStoreError as error:
        found = error.code

    assert found in (call, "token_entry_damaged")
