"""``ipistate checkpoint prepare`` and its like, against scripted participants."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from click.testing import CliRunner, Result

from ipistate.cli import deployment as cli_deployment
from ipistate.cli.app import cli
from ipistate.clients.coordinator import Coordinator
from ipistate.kernel import Environment
from ipistate.protocol import EncodedStates, EpisodeId, SessionRecord
from ipistate.sessions import EnvironmentCodec
from ipistate.storage import CheckpointDirectory, StopFlag


if TYPE_CHECKING:
    from tests.clients.conftest import Client, Deployment


TOKEN = "a-token"
EMPTY = Environment.from_json(b"{}")
ARGUMENTS = {
    "status": [],
    "prepare": ["c-1"],
    "commit": ["c-1", "/d", "-e", "a"],
    "renew": ["c-1"],
    "resume": ["c-1"],
    "restore": ["r-1", "/d", "-e", "a"],
    "retire": ["c-1", "-e", "a"],
    "forget": ["c-1", "a"],
}


@pytest.fixture
def run(
    deployment: Deployment,
    client_of: type[Client],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Callable[..., Result]:
    """Return a function that runs a verb for servers of the deployment."""

    def client(token: str) -> Client:
        return client_of(deployment.network, token)

    monkeypatch.setattr(cli_deployment, "ControlClient", client)
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    def invoke(
        verb: str,
        *arguments: str,
        urls: list[str] | tuple[str, str, str] = ("env", "policy", "ipi"),
        token: str | None = "token",
        given: str = "",
    ) -> Result:
        options = [part for name in urls for part in ("--url", f"http://{name}.test")]
        if token is not None:
            options += ["--token-file", str(tmp_path / token)]
        asked = ["checkpoint", verb, *map(str, arguments), *options]
        return CliRunner().invoke(cli, asked, input=given)

    return invoke


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_each_verb(
    run: Callable[..., Result], deployment: Deployment, verb: str
) -> None:
    """A table of all participants on stdout, the stages on stderr, exit code 0."""
    result = run(verb, *ARGUMENTS[verb])
    called = [stage for stage in deployment.called() if stage[0] == verb]

    assert 0 == result.exit_code, result.stderr
    assert {"kind", "environment", "model", "resources"} == {
        line.split()[0] for line in result.stdout.splitlines()
    }
    assert {"env", "policy", "ipi"} == {name for _, *names in called for name in names}
    assert f"{verb}: environment env" in result.stderr


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_b92_each_verb_as_json(run: Callable[..., Result], verb: str) -> None:
    """With --json stdout is one document with every reply."""
    result = run(verb, *ARGUMENTS[verb], "--json")
    document = json.loads(result.stdout)

    assert (0, verb, True) == (result.exit_code, document["operation"], document["ok"])
    assert {("environment", "env"), ("model", "policy"), ("resources", "ipi")} == {
        (one["kind"], one["name"]) for one in document["participants"]
    }
    assert all(one["reply"] for one in document["participants"])


@pytest.mark.parametrize("verb", ARGUMENTS)
def test_b92_failures_as_json(
    run: Callable[..., Result], deployment: Deployment, verb: str
) -> None:
    """A failing verb writes one document, too, with status, code and detail."""
    deployment.peers["ipi"].refuses(verb, "checkpoint_conflict")
    result = run(verb, *ARGUMENTS[verb], "--json")
    document = json.loads(result.stdout)
    failure = document["failures"][0]

    assert (1, False) == (result.exit_code, document["ok"])
    assert (verb, "refused", 409, "checkpoint_conflict", f"no {verb}") == tuple(
        failure[name] for name in ("operation", "reason", "status", "code", "detail")
    )
    assert "HTTP 409 checkpoint_conflict" in result.stderr


def unready(deployment: Deployment) -> None:
    """Make the resources server unready."""
    report = {
        "ready": False,
        "blockers": ["ipi-3", "workers:1"],
        "blocker_count": 7,
        "counts": {"inflight": 3, "sessions": 4},
        "restarts": ["x-a2"],
    }
    reply = {"phase": "preparing", "report": report}
    deployment.peers["ipi"].answers("prepare", reply)


def test_unready_prepare_lists_blockers(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """Exit code 1, with what is waited for, and how much more of it there is."""
    unready(deployment)
    result = run("prepare", "c-1")

    assert 1 == result.exit_code
    assert "waits for ipi-3, workers:1 and 5 more" in result.stdout
    assert "inflight 3, sessions 4" in result.stdout
    assert "blockers: ipi-3\nrestarts: x-a2\n" in result.stdout


def test_unready_prepare_as_json(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """The document says that it is not ready."""
    unready(deployment)
    document = json.loads(run("prepare", "c-1", "--json").stdout)

    assert (False, ["ipi-3"], ["x-a2"]) == (
        document["ok"],
        document["blockers"],
        document["restarts"],
    )


def test_requests_in_flight_without_a_name(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """A server that names no blocker waits for requests."""
    report = {
        "ready": False,
        "blockers": [],
        "blocker_count": 0,
        "counts": {"inflight": 1},
        "restarts": [],
    }
    reply = {"phase": "preparing", "report": report}
    deployment.peers["ipi"].answers("prepare", reply)

    assert "waits for requests in flight" in run("prepare", "c-1").stdout


def test_commit_leaves_restarts_out(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """The restarts come from the participants themselves, and are told."""
    peer = deployment.peers["policy"]
    status = peer.document("status", None)
    status["report"]["restarts"] = ["b-a1", "other"]
    peer.answers("status", status)
    result = run("commit", "c-1", "/d", "-e", "a", "--episode", "b-a1", "--json")
    document = json.loads(result.stdout)

    assert (["a"], ["a"], ["k-1"]) == (
        document["scope"],
        document["episodes"],
        document["staging_keys"],
    )
    assert "left out, they have to start over: b-a1\n" in result.stderr


def test_commit_of_everything(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """--everything sends no scope."""
    result = run("commit", "c-1", "/d", "--everything", "--json")

    assert json.loads(result.stdout)["scope"] is None
    assert deployment.peers["ipi"].bodies[-1][1]["episode_ids"] is None


def test_episodes_from_a_file(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """Keys come from a file or from standard input, one in each line."""
    run("restore", "r-1", "/d", "-e", "a", "--episodes", "-", given="b-a2\n\nc\r\n")

    assert [("a", 0), ("b", 2), ("c", 0)] == [
        (one["rollout_id"], one["attempt"])
        for one in deployment.peers["ipi"].bodies[-1][1]["episode_ids"]
    ]


def test_line_that_is_no_key(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """The message names the line."""
    result = run("retire", "c-1", "--episodes", "-", given="a\nr-a1-a2\n")

    assert 3 == result.exit_code
    assert "line 2" in result.stderr
    assert [] == deployment.called()


@pytest.mark.parametrize(
    "wrong",
    [
        ["commit", "c-1", "/d"],
        ["commit", "c-1", "/d", "--everything", "-e", "a"],
        ["restore", "r-1", "/d"],
        ["retire", "c-1"],
        ["retire", "c-1", "-e", "a b"],
        ["forget", "c-1"],
        ["prepare", "a/b"],
        ["prepare", "c-1", "--url", "localhost:8000"],
        ["prepare", "c-1", "--seconds", "-1"],
        ["prepare", "c-1", "--seconds", "nan"],
        ["renew", "c-1", "--seconds", "1e400"],
        ["status", "--token-env", "TOKEN"],
    ],
)
def test_usage(
    run: Callable[..., Result], deployment: Deployment, wrong: list[str]
) -> None:
    """What cannot be meant is a usage error, and nothing is sent."""
    result = run(*wrong)

    assert 2 == result.exit_code, result.output
    assert [] == deployment.called()


def test_token_is_needed(
    run: Callable[..., Result], deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from a file or from a variable that is named, never from a default."""
    assert 2 == run("status", token=None).exit_code
    assert [] == deployment.called()

    monkeypatch.setenv("CONTROL_TOKEN", TOKEN)
    assert 0 == run("status", "--token-env", "CONTROL_TOKEN", token=None).exit_code


def test_token_that_no_header_can_carry(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """A file with something else is refused, and not shown."""
    (tmp_path / "other").write_text("two\nlines")
    result = run("status", token="other")

    assert 3 == result.exit_code
    assert "lines" not in result.output


def test_wrong_token(run: Callable[..., Result], tmp_path: Path) -> None:
    """The refusal is told for every server, with exit code 1."""
    (tmp_path / "other").write_text("another")
    result = run("prepare", "c-1", token="other")

    assert (1, "") == (result.exit_code, result.stdout)
    assert 3 == result.stderr.count("HTTP 401 unauthorized")


@pytest.mark.parametrize("verb", ["prepare", "commit", "restore"])
def test_deployment_without_a_model(run: Callable[..., Result], verb: str) -> None:
    """A checkpoint without a model is refused unless it is asked for."""
    result = run(verb, *ARGUMENTS[verb], urls=["ipi"])

    assert 3 == result.exit_code
    assert "no participant of kind model" in result.stderr
    assert "--without-model" in result.stderr
    assert 0 == run(verb, *ARGUMENTS[verb], "--without-model", urls=["ipi"]).exit_code


@pytest.mark.parametrize("verb", ["status", "renew", "resume", "retire", "forget"])
def test_one_server_can_be_looked_after(run: Callable[..., Result], verb: str) -> None:
    """Other verbs need no model."""
    assert 0 == run(verb, *ARGUMENTS[verb], urls=["ipi"]).exit_code


@pytest.mark.parametrize("verb", ["status", "resume"])
def test_lost_server_keeps_nobody_from_being_reopened(
    run: Callable[..., Result], deployment: Deployment, verb: str
) -> None:
    """Status and resume go on without it, and end with exit code 1."""
    deployment.lose("env")
    result = run(verb, *ARGUMENTS[verb], "--json")
    document = json.loads(result.stdout)

    assert (1, False) == (result.exit_code, document["ok"])
    assert {"policy", "ipi"} == {one["name"] for one in document["participants"]}
    assert [("http://env.test", "unreachable")] == [
        (one["name"], one["reason"]) for one in document["failures"]
    ]


@pytest.mark.parametrize("verb", ["prepare", "commit", "restore", "renew", "retire"])
def test_lost_server_ends_other_verbs(
    run: Callable[..., Result], deployment: Deployment, verb: str
) -> None:
    """They change nothing unless everybody is there."""
    deployment.lose("env")
    result = run(verb, *ARGUMENTS[verb])

    assert (1, "") == (result.exit_code, result.stdout)
    assert "unreachable" in result.stderr
    assert {"status"} == {operation for operation, *_ in deployment.called()}


@pytest.mark.parametrize("verb", ["status", "resume"])
def test_nobody_answers(
    run: Callable[..., Result], deployment: Deployment, verb: str
) -> None:
    """There is nobody to go on with."""
    deployment.lose("ipi")
    result = run(verb, *ARGUMENTS[verb], urls=["ipi"])

    assert (1, "") == (result.exit_code, result.stdout)
    assert "unreachable" in result.stderr


def test_failed_restore_tells_its_clean_up(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """What could not be undone is in the document."""
    deployment.peers["policy"].refuses("restore")
    deployment.peers["ipi"].refuses("retire", "deadline_exceeded")
    document = json.loads(run("restore", "r-1", "/d", "-e", "a", "--json").stdout)

    assert [("policy", "restore")] == [
        (one["name"], one["operation"]) for one in document["failures"]
    ]
    assert [("ipi", "retire", "deadline_exceeded")] == [
        (one["name"], one["operation"], one["code"]) for one in document["clean_up"]
    ]


def only(deployment: Deployment, *keys: str) -> None:
    """Let all participants restore these attempts, whatever they are asked for."""
    reply = {"phase": "restored", "source_checkpoint_id": "s", "restored": [*keys]}
    for peer in deployment.peers.values():
        peer.answers("restore", reply)


def test_d2_missing_episodes_are_named_and_refused(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """D2: exit 1 and their names; all is freed, forgotten and reopened."""
    only(deployment, "a-a1")
    result = run("restore", "r-1", "/d", "-e", "a", "-e", "b-a2")
    stages = [stage[0] for stage in deployment.called() if stage[0] != "status"]

    assert (1, "missing: b-a2\n") == (result.exit_code, result.stdout)
    assert "b-a2: nothing was restored" in result.stderr
    assert "--allow-missing" in result.stderr
    assert ["restore", "retire", "forget", "resume"] == [*dict.fromkeys(stages)]


def test_d2_missing_episodes_as_json(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """D2: the document names them, too."""
    only(deployment, "a-a1")
    asked = ("restore", "r-1", "/d", "-e", "a", "-e", "b", "--json")
    refused = json.loads(run(*asked).stdout)
    allowed = json.loads(run(*asked, "--allow-missing").stdout)

    assert (False, ["b"]) == (refused["ok"], refused["missing"])
    assert (True, ["b"], ["a-a1"]) == (
        allowed["ok"],
        allowed["missing"],
        allowed["episodes"],
    )


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("checkpoint_conflict", "end it with resume"),
        ("stale_checkpoint", "take another one"),
        ("stale_attempt", "checkpoint forget"),
    ],
)
def test_d2_refused_restores_say_what_to_do(
    run: Callable[..., Result], deployment: Deployment, code: str, advice: str
) -> None:
    """D2: nothing is retired in silence, and a note has the remedy."""
    for peer in deployment.peers.values():
        peer.refuses("restore", code)
    result = run("restore", "r-1", "/d", "-e", "a")
    stages = {stage[0] for stage in deployment.called()}

    assert 1 == result.exit_code
    assert advice in result.stderr
    assert {"status", "restore"} == stages


def steps(deployment: Deployment) -> list[str]:
    """Return the operations that were asked for, each once, without the status."""
    called = [stage[0] for stage in deployment.called()]
    return [*dict.fromkeys(one for one in called if one != "status")]


@pytest.mark.parametrize("scope", [("-e", "a", "-e", "b-a2"), ("--everything",)])
def test_d9_take_is_prepare_commit_and_resume(
    run: Callable[..., Result], deployment: Deployment, scope: tuple[str, ...]
) -> None:
    """D9: one verb takes a checkpoint, of some episodes or of all."""
    result = run("take", "c-1", "/d", *scope, "--json")
    document = json.loads(result.stdout)
    bodies = dict(deployment.peers["ipi"].bodies)
    named = None if "-e" not in scope else ["a", "b-a2"]

    assert (0, True) == (result.exit_code, document["ok"]), result.stderr
    assert ["prepare", "commit", "resume"] == steps(deployment)
    assert named == document["scope"]
    assert "/d" == bodies["commit"]["checkpoint_dir"]


def test_d9_take_of_an_unready_deployment(
    run: Callable[..., Result], deployment: Deployment
) -> None:
    """D9: nothing is written, blockers are listed, and all are resumed."""
    unready(deployment)
    result = run("take", "c-1", "/d", "--everything")

    assert 1 == result.exit_code
    assert "blockers: ipi-3" in result.stdout
    assert ["prepare", "resume"] == steps(deployment)


@pytest.mark.parametrize("operation", ["prepare", "commit", "resume"])
def test_d9_take_that_fails_resumes(
    run: Callable[..., Result], deployment: Deployment, operation: str
) -> None:
    """D9: whatever fails, the participants are resumed, and exit code 1 tells."""
    deployment.peers["ipi"].refuses(operation)
    result = run("take", "c-1", "/d", "--everything", "--json")
    document = json.loads(result.stdout)
    told = document["failures"] + document["clean_up"]

    assert (1, False) == (result.exit_code, document["ok"])
    assert [operation] == [one["operation"] for one in told]
    assert "resume" == steps(deployment)[-1]


def test_d9_interrupted_take_resumes(
    run: Callable[..., Result], deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9: Ctrl-C while it writes leaves nobody closed."""

    async def interrupted(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(Coordinator, "commit", interrupted)
    result = run("take", "c-1", "/d", "--everything")

    assert 4 == result.exit_code
    assert ["prepare", "resume"] == steps(deployment)


def test_d9_restore_of_everything(
    run: Callable[..., Result], deployment: Deployment, tmp_path: Path
) -> None:
    """D9: the episodes are those of the directory, each once."""
    episodes = [EpisodeId("a"), EpisodeId("b", 2), EpisodeId("a")]
    records = [SessionRecord(one, f"s{n}", EMPTY) for n, one in enumerate(episodes)]
    lines = EncodedStates(EnvironmentCodec()).lines(records)
    CheckpointDirectory(tmp_path / "d", "ipi").write("c-1", lines, StopFlag())
    result = run("restore", "r-1", str(tmp_path / "d"), "--everything")
    body = dict(deployment.peers["ipi"].bodies)["restore"]

    assert 0 == result.exit_code, result.stderr
    assert [("a", 0), ("b", 2)] == [
        (one["rollout_id"], one["attempt"]) for one in body["episode_ids"]
    ]


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--everything", "-e", "a"), 2, "--everything names no episodes"),
        ((), 2, "name the episodes"),
        (("--everything",), 3, "no checkpoint here"),
    ],
)
def test_d9_what_is_restored_is_said(
    run: Callable[..., Result],
    deployment: Deployment,
    tmp_path: Path,
    options: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    """D9: by names or everything, and everything needs a directory that is here."""
    result = run("restore", "r-1", str(tmp_path / "none"), *options)

    assert code == result.exit_code
    assert said in result.stderr
    assert [] == steps(deployment)


def test_seconds_are_the_deadline(
    run: Callable[..., Result], deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline is the time now and the seconds given."""
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    run("renew", "c-1", "--seconds", "7.5")

    assert 1007.5 == deployment.peers["ipi"].bodies[-1][1]["deadline_ts"]


def test_interruption(
    run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends a verb, with a message that says how to reopen."""

    async def interrupted(*_: float | str | Coordinator) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(Coordinator, "prepare", interrupted)
    result = run("prepare", "c-1")

    assert (4, "") == (result.exit_code, result.stdout.strip())
    assert "'ipistate checkpoint resume ID' ends it" in result.stderr
