"""Log lines: their form, what they say, and what they never show."""

from __future__ import annotations

import json
import logging
import sys
import time

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ipistate.server.operating.logs import (
    JsonFormatter,
    LogForm,
    LogLevel,
    TextFormatter,
    configure,
    ready_line,
    trace,
)


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


SECRET = "R. Osei is allergic"


@pytest.fixture
def logging_restored() -> Iterator[None]:
    """Put the process's logging back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("ipistate")
    before = root.handlers[:], root.level, ours.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])
    ours.setLevel(before[2])


def failed(*, cause: ValueError | None = None) -> KeyError:
    """Return an exception as it is after it was raised, perhaps because of another."""
    try:
        raise KeyError(SECRET) from cause  # noqa: TRY301 - it needs a traceback
    except KeyError as error:
        return error


def record(error: KeyError | None = None, **extra: Any) -> logging.LogRecord:
    """Return a log record as a logger makes it."""
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("ipistate.server.x", 30, "f", 1, "a %s", ("b",), info)
    vars(made).update(extra)
    return made


def test_a_json_line_has_the_usual_members_and_the_given_ones() -> None:
    """One object on one line, with the extra members at its end."""
    line = JsonFormatter().format(record(operation="commit", path=sys))
    document = json.loads(line)

    assert "\n" not in line
    assert ["time", "level", "logger", "message", "operation", "path"] == list(document)
    assert ("warning", "ipistate.server.x", "a b", "commit") == (
        document["level"],
        document["logger"],
        document["message"],
        document["operation"],
    )
    assert document["time"].endswith("+00:00")


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_an_exception_shows_its_place_and_not_its_message(
    formatter: logging.Formatter,
) -> None:
    """Types and lines of the whole chain, none of the values in their messages."""
    line = formatter.format(record(failed(cause=ValueError(SECRET))))

    assert SECRET not in line
    assert "builtins.KeyError" in line
    assert "builtins.ValueError" in line
    assert "in failed" in line


def test_a_chain_that_leads_to_itself_ends() -> None:
    """Python allows a cycle of causes."""
    first, second = failed(), failed()
    first.__cause__, second.__cause__ = second, first

    assert 1 == trace(first).count("led to")


def test_a_text_line_names_time_level_and_logger() -> None:
    """For people."""
    line = TextFormatter().format(record())

    assert line.endswith(" WARNING ipistate.server.x: a b")


@pytest.mark.parametrize("form", LogForm)
def test_only_this_package_is_written_below_warnings(
    logging_restored: None, capsys: pytest.CaptureFixture[Any], form: LogForm
) -> None:
    """The level is the package's; other packages are heard from warnings on."""
    configure(form, LogLevel.INFO)
    logging.getLogger("ipistate.server.x").info("ours")
    logging.getLogger("ipistate.server.x").debug("too little")
    logging.getLogger("uvicorn.error").info("theirs")
    logging.getLogger("uvicorn.error").warning("a warning")
    out, written = capsys.readouterr()

    assert "" == out
    assert ["ours", "a warning"] == [
        json.loads(line)["message"]
        if form is LogForm.JSON
        else line.rpartition(": ")[2]
        for line in written.splitlines()
    ]


def test_the_ready_line_is_in_the_form_of_the_others() -> None:
    """Plain text that starts with the package's name, or an object with the address."""
    address = "http://127.0.0.1:1"
    text = ready_line(LogForm.TEXT, address)
    document = json.loads(ready_line(LogForm.JSON, address))

    assert "ipistate: serving on http://127.0.0.1:1" == text
    assert ("info", "serving on http://127.0.0.1:1", address) == (
        document["level"],
        document["message"],
        document["address"],
    )


@pytest.mark.anyio
async def test_control_calls_and_phases_are_logged(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each call with its outcome, each phase, each file; nothing of a world."""
    caplog.set_level(logging.DEBUG, "ipistate")
    client = await connect()
    await client.post("/ng-rollout/ipi-7/seed_session", json={"environment": world})
    await client.control("prepare")
    await client.control("commit", checkpoint_dir=str(tmp_path))
    await client.control("resume")
    await client.control("commit", checkpoint_dir=str(tmp_path))
    calls = [
        (vars(found)["operation"], vars(found)["status"], vars(found)["code"])
        for found in caplog.records
        if found.name == "ipistate.server.control"
    ]
    phases = [found.phase for found in caplog.records if hasattr(found, "phase")]
    files = [found.work for found in caplog.records if hasattr(found, "work")]

    assert [
        ("prepare", 200, None),
        ("commit", 200, None),
        ("resume", 200, None),
        ("commit", 409, "stale_checkpoint"),
    ] == calls
    assert ["prepared", "committed", "idle"] == phases
    assert ["write"] == files
    assert "Osei" not in caplog.text


@pytest.mark.anyio
async def test_the_end_of_a_lease_is_a_warning(
    connect: Callable[..., Awaitable[Client]],
    world: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Requests went on without the controller: somebody should know."""
    client = await connect(lease_grace_seconds=0.02)
    await client.control("prepare", seconds=0.02)
    await client.post("/no_such_tool", json={})

    assert "c-1 was given up: its lease ran out" in caplog.text


@pytest.mark.anyio
async def test_a_caller_that_leaves_is_logged(
    connect: Callable[..., Awaitable[Client]],
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With what it asked for, and without an outcome."""
    client = await connect()
    blocking = wire(client.app, "/no_such_tool", None, slow=True)
    await settled()
    waiting = wire(
        client.app,
        "/ng-control/v1/checkpoint/prepare",
        b'{"checkpoint_id":"c-9","deadline_ts":%f}' % (time.time() + 600),
        headers={"authorization": "Bearer a-token"},
    )
    await settled()
    waiting.hang_up()
    await waiting.task
    blocking.hang_up()
    await blocking.task

    assert "prepare of checkpoint c-9: its caller went away" in caplog.text
    assert "lease ran out" not in caplog.text
