"""Diffs of worlds: applied they give the other one, byte for byte."""

from __future__ import annotations

import json

import jsonpatch

from hypothesis import given

from ipistate import encode, freeze, thaw
from ipistate.diff import diff
from ipistate.testing import json_values


def patched(before, patch):
    """Apply a patch with a library, after a way through text."""
    return freeze(jsonpatch.apply_patch(thaw(before), json.loads(encode(patch))))


@given(json_values(), json_values())
def test_the_patch_gives_the_other_value(before, after):
    """Applied by a library, the patch gives the second value byte for byte."""
    result = patched(before, diff(before, after).to_patch())

    assert encode(after) == encode(result)
