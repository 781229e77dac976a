"""The real model's tests: collected where its engine is installed, run on asyncio."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


collect_ignore = ["test_real_model.py"] if find_spec("xllamacpp") is None else []


@pytest.fixture
def anyio_backend() -> str:
    """Run asynchronous tests on asyncio."""
    return "asyncio"
