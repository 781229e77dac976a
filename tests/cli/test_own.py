"""Tools, policies and verifiers of the user's own, named on the command line."""

from __future__ import annotations

import json
import sys

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest


if TYPE_CHECKING:
    from click.testing import Result


from ipistate.generate import builtin


MODULE = """
from ipistate import JsonObject, Verdict, verify
from ipistate.agents import PolicyReply
from ipistate.tools import table_of, tool, TOOLS


def shout(environment, text: str):
    return environment, text.upper()


TABLE = table_of(TOOLS.values(), [tool(shout, "own")])


class Silent:
    name = "silent"

    async def respond(self, conversation, tools):
        return PolicyReply(items=())


class Shouting:
    name = "shouting"

    async def respond(self, conversation, tools):
        if any(one.get("type") == "function_call_output" for one in conversation):
            return PolicyReply(items=())
        call = {"type": "function_call", "call_id": "c", "name": "shout",
                "arguments": '{"text": "a"}'}
        return PolicyReply(items=(JsonObject(call),))


silent = Silent()


def failing():
    raise RuntimeError("no policy today")


def verdict(request):
    return verify(request.output_items, request.injection)


def wrong(request):
    return request.nothing


def no_verdict(request):
    return 1.0
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module into the working directory and return its name."""
    name = f"own_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return name


@pytest.fixture
def tasks(write: Callable[..., Path]) -> Path:
    """Write one task row."""
    return write("tasks.jsonl", builtin.rows()[0].to_json())


def test_d4_tools_of_ones_own_are_called(
    run: Callable[..., Result], own: str, tmp_path: Path
) -> None:
    """D4: call knows the table, strictly if it is asked to; the names are those of it."""
    (tmp_path / "w.json").write_text("{}")
    more = ("-e", "w.json", "--tools", f"{own}:TABLE", "-a")
    said = run("call", "shout", *more, '{"text": "a"}')
    strict = run("call", "get_patient_record", *more, '{"patient_id": 3}', "--strict")
    unknown = run("call", "shout", "-e", "w.json", "-a", '{"text": "a"}')

    assert (0, "A") == (said.exit_code, said.stdout.splitlines()[0])
    assert (1, 1) == (strict.exit_code, unknown.exit_code)
    assert "patient_id" in strict.stdout


@pytest.mark.parametrize("policy", ["Silent", "silent"])
def test_d4_policies_of_ones_own_are_run(
    run: Callable[..., Result], own: str, tasks: Path, policy: str
) -> None:
    """D4: a class that makes one, or the policy itself, plays rollouts."""
    done = run("run", "--tasks", tasks, "-o", "r.jsonl", "--policy", f"{own}:{policy}")

    assert 0 == done.exit_code, done.stderr
    assert 1 == len(Path("r.jsonl").read_text().splitlines())


def test_d4_a_run_with_tools_of_ones_own(
    run: Callable[..., Result], own: str, tasks: Path
) -> None:
    """D4: the run's server has them, replay and report know them, a resume tells them."""
    words = ("run", "--tasks", tasks, "-o", "r.jsonl", "--policy", f"{own}:Shouting")
    table = ("--tools", f"{own}:TABLE")
    done = run(*words, *table)
    row = json.loads(Path("r.jsonl").read_text())
    again = run("replay", "r.jsonl", *table)
    without = run("replay", "r.jsonl")
    pages = [
        run("report", "r.jsonl", "--json", "--processes", count, *table)
        for count in ("1", "2")
    ]
    resumed = run(*words, "--resume")

    assert 0 == done.exit_code, done.stderr
    assert any("A" in str(one.get("output")) for one in row["response"]["output"])
    assert (0, 1) == (again.exit_code, without.exit_code)
    assert [0, 0] == [one.exit_code for one in pages]
    assert pages[0].stdout == pages[1].stdout
    assert (3, True) == (
        resumed.exit_code,
        "policy_options.tools was" in resumed.stderr,
    )


def test_d4_verifiers_of_ones_own_score(
    run: Callable[..., Result],
    own: str,
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
) -> None:
    """D4: the function's verdict is compared with what is stored."""
    file = write("r.jsonl", stored[0])
    done = run("verify", file, "--verifier", f"{own}:verdict", "--json")

    assert done.exit_code in {0, 1}
    assert {"same", "different"} & json.loads(done.stdout)["counts"].keys()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrong", "AttributeError"),
        ("no_verdict", "returned no Verdict but a float"),
        ("silent", "is no function"),
        ("nothing", "cannot import"),
    ],
)
def test_d4_what_is_no_verifier(
    run: Callable[..., Result],
    own: str,
    write: Callable[..., Path],
    stored: list[dict[str, Any]],
    name: str,
    said: str,
) -> None:
    """D4: a failing function is named, and nothing ends in a traceback."""
    file = write("r.jsonl", stored[0])
    done = run("verify", file, "--verifier", f"{own}:{name}")

    assert done.exit_code in {2, 3}
    assert said in done.stderr


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--policy", "nothing", "nothing"),
        ("--policy", "{own}:nothing", "cannot import"),
        ("--policy", "no_such_module:x", "ModuleNotFoundError"),
        ("--policy", "{own}:", "MODULE:NAME"),
        ("--policy", "{own}:failing", "no policy today"),
        ("--policy", "{own}:MODULE", "cannot import"),
        ("--policy", "{own}:TABLE", "is no policy"),
        ("--tools", "{own}:Silent", "no table of tools"),
        ("--tools", "{own}", "MODULE:NAME"),
    ],
)
def test_d4_what_cannot_be_used_is_said(
    run: Callable[..., Result],
    own: str,
    tasks: Path,
    option: str,
    name: str,
    said: str,
) -> None:
    """D4: exit code 2, and one message that says what is wrong with the name."""
    words = ["run", "--tasks", str(tasks), "-o", "r.jsonl"]
    words += [] if option == "--policy" else ["--policy", "random"]
    done = run(*words, option, name.format(own=own))

    assert 2 == done.exit_code, done.output
    assert said in done.stderr


def test_d4_tools_and_a_server_that_runs_already(
    run: Callable[..., Result], own: str, tasks: Path
) -> None:
    """D4: that server has its own tools."""
    words = ("run", "--tasks", tasks, "-o", "r.jsonl", "--policy", "random")
    done = run(*words, "--url", "http://localhost:1", "--tools", f"{own}:TABLE")

    assert 2 == done.exit_code
    assert "not --url" in done.stderr


def test_d4_a_verifier_and_effects(
    run: Callable[..., Result], own: str, tasks: Path
) -> None:
    """D4: one of them can score."""
    done = run("verify", tasks, "--effects", "--verifier", f"{own}:verdict")

    assert 2 == done.exit_code


@pytest.mark.parametrize("strict", [False, True])
def test_d4_a_server_with_tools_of_ones_own(
    run: Callable[..., Result],
    own: str,
    monkeypatch: pytest.MonkeyPatch,
    strict: bool,
) -> None:
    """D4: serve hands the table on, and strict arguments are made from it."""
    started: list[Any] = []
    monkeypatch.setattr("ipistate.cli.serve.run", lambda *a, **_: started.append(a[0]))
    more = ["--strict-arguments"] if strict else []
    done = run("serve", "--tools", f"{own}:TABLE", *more)

    assert 0 == done.exit_code, done.stderr
    assert "shout" in started[0].tools
    assert strict == (started[0].tools["shout"] is not own_tool(own))


def own_tool(own: str) -> object:
    """Return the tool of the module."""
    return sys.modules[own].TABLE["shout"]
