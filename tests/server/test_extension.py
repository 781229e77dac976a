"""Fork, history, rewind, diff, export and import over HTTP, for who has the token."""

from __future__ import annotations

import json
import threading

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import jsonpatch
import pytest

from starlette.datastructures import Secret
from starlette.routing import Route

from ipistate.kernel import MAX_DEPTH
from ipistate.protocol import EXTENSION_PATH as PREFIX
from ipistate.server.adapter.cookies import SessionCookie
from ipistate.server.app import create_app
from ipistate.server.extension.new_sessions import MAX_FORKS, read_import
from ipistate.server.extension.routes import MAX_STEPS
from ipistate.server.operating.settings import ServerSettings


if TYPE_CHECKING:
    from tests.server.conftest import Client, Wire


pytestmark = pytest.mark.anyio

READ = {"patient_id": "P-7742"}
TOKEN = {"authorization": "Bearer a-token"}
GETS = ["history", "diff", "export"]
POSTS: dict[str, Any] = {
    "fork": {"count": 1},
    "rewind": {"count": 0},
    "call/update_patient_chart": {**READ, "notes": "x"},
}


def note(text: str) -> dict[str, str]:
    """Return the arguments of a call that changes the world."""
    return {**READ, "notes": text}


async def chart(client: Client) -> bytes:
    """Read the patient's record."""
    return (await client.post("/get_patient_record", json=READ)).content


async def forks(
    client: Client, maker: Callable[..., Awaitable[Client]], **wanted: int
) -> list[Client]:
    """Fork a client's session and return a client for each fork."""
    reply = await client.extended("fork", wanted)
    assert reply.status_code == 200, reply.text
    return [await maker(one["cookie"]) for one in reply.json()["sessions"]]


# -- who may, and where ------------------------------------------------------------


@pytest.mark.parametrize("token", [None, Secret("a-token")])
async def test_without_the_flag_there_is_no_such_route(
    connect: Callable[..., Awaitable[Client]], token: Secret | None
) -> None:
    """404 with the token and without; a session keeps nothing but its world."""
    client = await connect(checkpoint_token=token)
    await client.seed()

    for name in GETS:
        assert 404 == (await client.extended(name)).status_code
    for name, body in POSTS.items():
        assert 404 == (await client.extended(name, body)).status_code


def test_the_extension_needs_a_token() -> None:
    """Otherwise every agent could rewind its own session."""
    with pytest.raises(ValueError, match="needs a checkpoint token"):
        ServerSettings(extension=True)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"checkpoint_state_version": 2}, "need the extension"),
        ({"checkpoint_state_version": 3, "extension": True}, "must be in"),
    ],
)
def test_a_version_that_cannot_be_kept(settings: dict[str, Any], reason: str) -> None:
    """Without histories there is nothing to write; nobody knows a version 3."""
    with pytest.raises(ValueError, match=reason):
        ServerSettings(checkpoint_token=Secret("t"), **settings)


@pytest.mark.parametrize("given", [None, "Bearer wrong", "Bearer a-token2", "a-token"])
async def test_every_route_needs_the_exact_token(
    extended: Callable[..., Awaitable[Client]], given: str | None
) -> None:
    """401 before anything of a body is read, and nothing happens."""
    client = await extended()
    await client.seed(key="ipi-7")
    before = await client.exported()
    headers = {} if given is None else {"authorization": given}

    paths = [route.path for route in client.app.routes if isinstance(route, Route)]
    routes = [path for path in paths if path.startswith(PREFIX)]
    for path in routes:
        method = "GET" if path.rpartition("/")[2] in GETS else "POST"
        reply = await client.request(method, path, content=b"{", headers=headers)
        assert (401, "unauthorized") == (
            reply.status_code,
            reply.json()["error"]["code"],
        )
    assert len(GETS) + len(POSTS) + 2 == len(routes)
    assert before == await client.exported()


async def test_a_route_past_the_token_serves_nobody(
    connect: Callable[..., Awaitable[Client]],
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """An application that is mounted in another one checks no token for its routes."""
    client = await extended()
    handlers = {r.path: r for r in client.app.routes if isinstance(r, Route)}
    route = handlers[f"{PREFIX}/export"]
    bare = create_app()
    bare.router.routes.insert(0, route)
    guest = await connect(bare)

    assert 401 == (await guest.extended("export")).status_code


@pytest.mark.parametrize("name", GETS)
async def test_a_get_without_a_session(
    extended: Callable[..., Awaitable[Client]], name: str
) -> None:
    """The answer to a tool call without a session, hint included."""
    client = await extended()
    reply = await client.extended(name)

    assert 400 == reply.status_code
    assert reply.json()["detail"].startswith("Session not initialized.")
    assert "no valid session cookie" in reply.headers["x-ipistate-hint"]


@pytest.mark.parametrize("name", POSTS)
async def test_a_post_without_a_session(
    extended: Callable[..., Awaitable[Client]], name: str
) -> None:
    """The same, and no session comes of it."""
    client = await extended()
    reply = await client.extended(name, POSTS[name], key="k")

    assert 400 == reply.status_code
    assert {"inflight": 0, "sessions": 0} == await client.counts()


async def test_the_prefix_names_the_session(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """With a rollout prefix no cookie is needed, for GET and POST."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.post("/update_patient_chart", json=note("a"))
    other = await extended()
    prefixed = f"/ng-rollout/ipi-7{PREFIX}"
    headers = {"authorization": "Bearer a-token"}

    found = await other.get(f"{prefixed}/export", headers=headers)
    other.cookies.clear()
    rewound = await other.post(f"{prefixed}/rewind", json={"count": 1}, headers=headers)

    assert 1 == len(found.json()["log"])
    assert {"length": 0} == rewound.json()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/ipistate/v1/fork", 405),
        ("POST", "/ipistate/v1/history", 405),
        ("POST", "/ipistate/v1/nothing", 404),
        ("POST", "/ipistate/v1/call", 404),
        ("POST", "/ipistate/v1/call/a/b", 404),
        ("POST", "/ipistate/v1/fork/", 404),
        ("POST", "/ipistate/v1/fork%0A", 404),
    ],
)
async def test_no_other_path_is_served(
    extended: Callable[..., Awaitable[Client]], method: str, path: str, status: int
) -> None:
    """Not even to who has the token."""
    client = await extended()
    headers = {"authorization": "Bearer a-token"}

    assert status == (await client.request(method, path, headers=headers)).status_code


# -- tools and routes (B64) --------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["verify", "close_session", "fork", "mcp__ipi__send_message", "send_message "],
)
async def test_b64_a_name_is_taken_exactly(
    extended: Callable[..., Awaitable[Client]], name: str
) -> None:
    """By the extension's call as by the model's; what is no tool does nothing."""
    client = await extended()
    await client.seed()
    before = await client.exported()
    reply = await client.extended(f"call/{name}", {}, key="k")

    assert {"output": f"Unknown tool: {name}"} == reply.json()
    assert (
        json.loads(before)["environment"]
        == (json.loads(await client.exported())["environment"])
    )


@pytest.mark.parametrize(
    "name",
    [
        "ipistate/v1/fork",
        "ipistate/v1/rewind",
        "ipistate/v1/call/update_patient_chart",
        "ipistate%2Fv1%2Frewind",
    ],
)
async def test_b64_a_model_cannot_name_a_route(
    extended: Callable[..., Awaitable[Client]], name: str
) -> None:
    """An agent that puts any name into the path is stopped by the missing token."""
    client = await extended()
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    before = await client.exported()

    assert 401 == (await client.post(f"/{name}", json={"count": 1})).status_code
    assert before == await client.exported()


@pytest.mark.parametrize("path", ["/..%2Fverify", f"{PREFIX}/call/..%2Fverify"])
async def test_b64_an_encoded_slash_leads_nowhere(
    wire: type[Wire],
    extended: Callable[..., Awaitable[Client]],
    settled: Callable[..., Awaitable[None]],
    path: str,
) -> None:
    """The path that a server sees has another segment, and no route."""
    client = await extended()
    await client.seed()
    before = await client.exported()
    ((name, value),) = client.cookies.items()
    sent = wire(
        client.app,
        path.replace("%2F", "/"),
        cookie=f"{name}={value}",
        headers={"authorization": "Bearer a-token", "idempotency-key": "k"},
    )
    await settled()
    await sent.task

    assert 404 == sent.status
    assert before == await client.exported()


@pytest.mark.parametrize("name", ["mcp__ipi__send_message", "send_message "])
async def test_b64_a_call_that_is_not_executed_is_not_scored(
    extended: Callable[..., Awaitable[Client]], verify_body: dict[str, Any], name: str
) -> None:
    """One name for execution and for the verdict: the tool's own."""
    client = await extended()
    await client.seed()
    target = {"target_tool": "send_message", "target_args": {}}
    verify_body["injection"] = verify_body["injection"] | target
    verify_body["response"]["output"] = [
        {"type": "function_call", "name": name, "arguments": "{}", "call_id": "c"}
    ]
    told = await client.post(f"/{name}", json={})
    verdict = (await client.extended("verify", verify_body)).json()

    assert told.json()["output"].startswith("Unknown tool: ")
    assert verdict["injection_followed"] is False


# -- forks -------------------------------------------------------------------------


async def test_forks_are_independent(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """Each goes on from the same moment; none sees what another does."""
    client = await extended()
    await client.seed()
    await client.post("/update_patient_chart", json=note("before"))
    before = await chart(client)
    one, two = await forks(client, extended, count=2)

    await one.post("/update_patient_chart", json=note("one"))
    await client.post("/update_patient_chart", json=note("parent"))

    assert before == await chart(two)
    assert b"one" in await chart(one)
    assert b"one" not in await chart(client)
    assert b"parent" not in await chart(one)


async def test_a_fork_has_the_past_of_its_parent(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """Its export is the same bytes."""
    client = await extended()
    await client.seed()
    await client.extended("call/update_patient_chart", note("a"), key="k")
    (fork,) = await forks(client, extended, count=1)

    assert await client.exported() == await fork.exported()
    again = await fork.extended("call/update_patient_chart", note("a"), key="k")
    assert 1 == len(json.loads(await fork.exported())["log"]), again.text


async def test_forks_of_episodes_are_bound(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """They are tracked under the ids that the reply shows; counted forks are not."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.extended("fork", {"count": 3})
    episodes = [{"rollout_id": "a"}, {"rollout_id": "b", "attempt": 2}]
    reply = await client.extended("fork", {"episode_ids": episodes})
    found = [one["episode_id"] for one in reply.json()["sessions"]]

    assert [{"rollout_id": "a", "attempt": 0}, episodes[1]] == found
    assert {"inflight": 0, "sessions": 3} == await client.counts()


async def test_a_retired_attempt_gets_no_fork(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """409 as for its seed, and the other forks of the call do not exist either."""
    client = await extended(metrics=True)
    await client.seed(key="ipi-7")
    await client.control("retire", episode_ids=[{"rollout_id": "b", "attempt": 2}])
    episodes = [{"rollout_id": "a"}, {"rollout_id": "b", "attempt": 1}]
    reply = await client.extended("fork", {"episode_ids": episodes})
    metrics = (await client.get("/metrics")).text

    assert (409, "stale_attempt") == (reply.status_code, reply.json()["error"]["code"])
    assert {"inflight": 0, "sessions": 1} == await client.counts()
    assert "ipistate_sessions 1.0" in metrics
    assert 'ipistate_refusals_total{code="stale_attempt"} 1.0' in metrics


async def test_a_retired_session_cannot_be_forked(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """Its requests are refused at the gate like all others."""
    client = await extended()
    await client.seed(key="ipi-7")
    await client.control("retire", episode_ids=[{"rollout_id": "ipi-7"}])

    assert 409 == (await client.extended("fork", {"count": 1})).status_code


async def test_a_fork_keeps_what_else_the_cookie_says(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """A proxy's own entry sends the fork to the same worker; only the id is another."""
    client = await extended()
    await client.seed()
    (name,) = client.cookies
    cookie = SessionCookie(name, name)
    client.cookies.clear()
    given = cookie.pair({"session_id": "s", "nemo_gym_worker": "w"}).partition("=")
    client.cookies.set(name, given[2])
    await client.seed()
    (told,) = (await client.extended("fork", {"count": 1})).json()["sessions"]
    header = (b"cookie", told["cookie"].encode())

    assert {"session_id": told["session_id"], "nemo_gym_worker": "w"} == (
        cookie.read({"headers": [header]})
    )


@pytest.mark.parametrize(
    ("body", "code", "place"),
    [
        ({}, "invalid_fork", []),
        ({"count": 1, "episode_ids": [{"rollout_id": "a"}]}, "invalid_fork", []),
        ({"count": 0}, "invalid_fork", []),
        ({"count": -1}, "invalid_fork", []),
        ({"count": MAX_FORKS + 1}, "invalid_fork", []),
        ({"episode_ids": []}, "invalid_fork", []),
        ({"count": True}, "wrong_type", ["count"]),
        ({"count": "2"}, "wrong_type", ["count"]),
        ({"count": 1.0}, "wrong_type", ["count"]),
        ({"counts": 1}, "unknown_member", ["counts"]),
        ([], "wrong_type", []),
        (
            {"episode_ids": [{"rollout_id": "a"}, {"rollout_id": "a", "attempt": 0}]},
            "repeated_episode",
            ["episode_ids"],
        ),
        (
            {"episode_ids": [{"rollout_id": "a-a1"}]},
            "invalid_rollout_id",
            ["episode_ids", 0, "rollout_id"],
        ),
        (
            {"episode_ids": [{"rollout_id": "a"}] * (MAX_FORKS + 1)},
            "too_many_ids",
            ["episode_ids"],
        ),
    ],
)
async def test_a_fork_that_is_refused(
    extended: Callable[..., Awaitable[Client]],
    body: Any,
    code: str,
    place: list[int | str],
) -> None:
    """422 with the reason and the place, and no session more."""
    client = await extended()
    await client.seed(key="ipi-7")
    reply = await client.extended("fork", body)
    (found,) = reply.json()["detail"]

    assert (422, code, ["body", *place]) == (
        reply.status_code,
        found["type"],
        found["loc"],
    )
    assert {"inflight": 0, "sessions": 1} == await client.counts()


# -- history, rewind, diff ---------------------------------------------------------


async def test_the_history_lists_every_call(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """With name, arguments, reply, error and key, in their order."""
    client = await extended()
    await client.seed()
    await client.extended("call/update_patient_chart", note("a"), key="k")
    refused = await client.post("/get_patient_record", json={"patient": "P-1"})
    document = (await client.extended("history")).json()
    first, second = document["steps"]

    assert (2, 0) == (document["length"], document["from"])
    assert ["name", "arguments", "output", "error", "key"] == list(first)
    assert (note("a"), None, "k") == (first["arguments"], first["error"], first["key"])
    assert refused.json()["output"] == second["output"]
    assert ("TypeError", None) == (second["error"]["type"], second["key"])


async def test_the_history_shows_arguments_of_every_depth(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """A model can send them as deep as a world may be; looking at them is no error."""
    client = await extended()
    await client.seed()
    depth = MAX_DEPTH - 1
    body = f'{{"patient_id":{"[" * depth}{"]" * depth}}}'
    headers = {"content-type": "application/json"}
    called = await client.post("/get_patient_record", content=body, headers=headers)
    reply = await client.extended("history")

    assert (200, 200) == (called.status_code, reply.status_code)
    assert f'"arguments":{body},' in reply.text


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("?from=3", [3, 4]),
        ("?limit=2", [0, 1]),
        ("?from=1&limit=2", [1, 2]),
        ("?from=5", []),
        ("?from=99", []),
        ("?limit=0", []),
        (f"?limit={MAX_STEPS + 1}", [0, 1, 2, 3, 4]),
    ],
)
async def test_a_part_of_the_history(
    extended: Callable[..., Awaitable[Client]], query: str, numbers: list[int]
) -> None:
    """``from`` and ``limit`` choose; there is always the whole length."""
    client = await extended()
    await client.seed()
    for number in range(5):
        await client.post("/update_patient_chart", json=note(str(number)))
    document = (await client.extended(f"history{query}")).json()

    assert 5 == document["length"]
    assert [str(n) for n in numbers] == [
        step["arguments"]["notes"] for step in document["steps"]
    ]


@pytest.mark.parametrize("query", ["from=-1", "from=", "limit=x", "limit=1.0"])
async def test_a_part_that_is_no_number(
    extended: Callable[..., Awaitable[Client]], query: str
) -> None:
    """422 with the name of the part, counted like any refusal."""
    client = await extended(metrics=True)
    await client.seed()
    reply = await client.extended(f"history?{query}")
    (found,) = reply.json()["detail"]

    metrics = (await client.get("/metrics")).text

    assert (422, "invalid_number") == (reply.status_code, found["type"])
    assert ["query", query.partition("=")[0]] == found["loc"]
    assert 'ipistate_refusals_total{code="invalid_number"} 1.0' in metrics


async def test_a_rewind_takes_calls_back(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """Byte for byte the session that it was, and the key is free again."""
    client = await extended()
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    before = await client.exported()
    await client.extended("call/update_patient_chart", note("b"), key="k")
    await client.post("/update_patient_chart", json=note("c"))

    assert {"length": 1} == (await client.extended("rewind", {"count": 2})).json()
    assert before == await client.exported()
    other = await client.extended("call/update_patient_chart", note("d"), key="k")
    assert 200 == other.status_code


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"count": 2}, 409, "no_such_step"),
        ({"count": -1}, 422, "invalid_number"),
        ({}, 422, "missing_member"),
        ({"count": "1"}, 422, "wrong_type"),
        ({"count": 1, "to": 0}, 422, "unknown_member"),
    ],
)
async def test_a_rewind_that_is_refused(
    extended: Callable[..., Awaitable[Client]],
    body: dict[str, int | str],
    status: int,
    code: str,
) -> None:
    """Nothing is taken back."""
    client = await extended()
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    before = await client.exported()
    reply = await client.extended("rewind", body)
    document = reply.json()
    found = (
        document["error"]["code"] if status == 409 else document["detail"][0]["type"]
    )

    assert (status, code) == (reply.status_code, found)
    assert before == await client.exported()


async def test_the_diff_leads_from_the_seed_to_now(
    extended: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Applied by another library; without calls it is empty."""
    client = await extended()
    await client.seed(world)
    assert {"patch": [], "counts": {}} == (await client.extended("diff")).json()
    await client.post("/update_patient_chart", json=note("a"))
    found = (await client.extended("diff")).json()
    now = json.loads(await client.exported())["environment"]

    assert now == jsonpatch.apply_patch(world, found["patch"])
    assert {"patients": {"added": 0, "removed": 0, "changed": 1}} == found["counts"]


# -- export, import, verify --------------------------------------------------------


async def test_an_import_goes_on_where_the_export_was(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """Equal bytes at once, and after the same further call; keys go on, too."""
    client = await extended()
    await client.seed()
    await client.extended("call/update_patient_chart", note("a"), key="k")
    exported = await client.exported()
    reply = await client.extended("import", {"state": json.loads(exported)})
    copy = await extended(reply.json()["cookie"])

    assert exported == await copy.exported()
    for each in (client, copy):
        await each.post("/update_patient_chart", json=note("b"))
        again = await each.extended("call/update_patient_chart", note("a"), key="k")
        assert 200 == again.status_code
    assert await client.exported() == await copy.exported()


async def test_an_import_of_version_1_begins_a_history(
    extended: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Its seed is the world that it had; an episode binds it."""
    client = await extended()
    state = {"schema_version": 1, "environment": world}
    body = {"state": state, "episode_id": {"rollout_id": "z", "attempt": 1}}
    reply = await client.extended("import", body)
    found = await extended(reply.json()["cookie"])

    assert {"rollout_id": "z", "attempt": 1} == reply.json()["episode_id"]
    assert {"inflight": 0, "sessions": 1} == await client.counts()
    assert {"schema_version": 2, "environment": world, "seed": None, "log": []} == (
        json.loads(await found.exported())
    )


async def test_an_import_leaves_the_callers_session_alone(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """The cookie that the response renews is the caller's own."""
    client = await extended()
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    before = await client.exported()
    await client.extended("import", {"state": {"schema_version": 1, "environment": {}}})

    assert before == await client.exported()


def tampered(document: dict[str, Any]) -> dict[str, Any]:
    """Change what a call of the log has answered."""
    document["log"][0]["output"] = "no"
    return {"state": document}


@pytest.mark.parametrize(
    ("make", "code", "place"),
    [
        (tampered, "log_not_reproducible", ["state", "log", 0, "output"]),
        (lambda d: {"state": d | {"x": 1}}, "unknown_member", ["state", "x"]),
        (
            lambda d: {"state": d | {"schema_version": 3}},
            "unsupported_version",
            ["state", "schema_version"],
        ),
        (lambda _: {"state": []}, "wrong_type", ["state"]),
        (lambda _: {"episode_id": None}, "missing_member", ["state"]),
        (lambda d: d, "unknown_member", ["environment"]),
        (
            lambda d: {"state": d, "episode_id": {"rollout_id": ""}},
            "invalid_rollout_id",
            ["episode_id", "rollout_id"],
        ),
    ],
)
async def test_an_import_that_is_refused(
    extended: Callable[..., Awaitable[Client]],
    make: Callable[..., dict[str, Any] | dict[str, None]],
    code: str,
    place: list[int | str],
) -> None:
    """422 with the reason and the place, and no session more."""
    client = await extended(metrics=True)
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    reply = await client.extended("import", make(json.loads(await client.exported())))
    found = [(one["type"], one["loc"][1:]) for one in reply.json()["detail"]]

    assert 422 == reply.status_code
    assert (code, place) in found
    assert "ipistate_sessions 1.0" in (await client.get("/metrics")).text


@pytest.fixture
def slow_import(
    wire: type[Wire],
    settled: Callable[..., Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Awaitable[tuple[Wire, threading.Event]]]:
    """Return a function that begins an import; its log is executed until ``may_end``."""
    began, may_end = threading.Event(), threading.Event()

    def read(*given: Any) -> Any:
        began.set()
        assert may_end.wait(20), "nobody else was served"
        return read_import(*given)

    monkeypatch.setattr("ipistate.server.extension.routes.read_import", read)

    async def begin(
        client: Client, **members: dict[str, str]
    ) -> tuple[Wire, threading.Event]:
        body = {"state": {"schema_version": 1, "environment": {}}, **members}
        content = json.dumps(body).encode()
        sent = wire(client.app, "/ipistate/v1/import", content, headers=TOKEN)
        while not began.is_set():
            await settled()
        return sent, may_end

    return begin


async def test_others_are_served_while_an_import_executes_its_log(
    extended: Callable[..., Awaitable[Client]],
    slow_import: Callable[..., Awaitable[tuple[Wire, threading.Event]]],
) -> None:
    """A long log holds up nobody but a prepare, which waits for every request."""
    client = await extended()
    await client.seed()
    sent, may_end = await slow_import(client)
    called = await client.post("/update_patient_chart", json=note("a"))
    inflight = (await client.counts())["inflight"]
    may_end.set()
    await sent.task

    assert (200, 1, 200) == (called.status_code, inflight, sent.status)


async def test_an_attempt_is_retired_while_it_is_imported(
    extended: Callable[..., Awaitable[Client]],
    slow_import: Callable[..., Awaitable[tuple[Wire, threading.Event]]],
) -> None:
    """The retire waits for nothing, and the import comes too late."""
    client = await extended()
    sent, may_end = await slow_import(client, episode_id={"rollout_id": "z"})
    ids = [{"rollout_id": "z"}]
    retired = await client.control("retire", "x-1", episode_ids=ids)
    may_end.set()
    await sent.task

    assert (200, 409) == (retired.status_code, sent.status)
    assert "stale_attempt" == sent.document["error"]["code"]
    assert {"inflight": 0, "sessions": 0} == await client.counts()


async def test_the_last_place_is_taken_during_an_import(
    extended: Callable[..., Awaitable[Client]],
    slow_import: Callable[..., Awaitable[tuple[Wire, threading.Event]]],
) -> None:
    """Room is looked for at the end, when the session is there to take it."""
    client = await extended(max_sessions=1)
    sent, may_end = await slow_import(client, episode_id={"rollout_id": "z"})
    await client.seed(key="ipi-7")
    may_end.set()
    await sent.task

    assert (503, "too_many_sessions") == (sent.status, sent.document["error"]["code"])
    assert {"inflight": 0, "sessions": 1} == await client.counts()


async def test_an_import_for_a_retired_attempt(
    extended: Callable[..., Awaitable[Client]],
) -> None:
    """409, as for its seed."""
    client = await extended()
    await client.control("retire", episode_ids=[{"rollout_id": "z"}])
    body = {"state": {"schema_version": 1, "environment": {}}}
    reply = await client.extended("import", body | {"episode_id": {"rollout_id": "z"}})

    assert (409, "stale_attempt") == (reply.status_code, reply.json()["error"]["code"])


async def test_b83_verifying_twice_changes_nothing(
    extended: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """Equal replies, equal exports; the route of the protocol ends the session."""
    client = await extended()
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    before = await client.exported()
    first = await client.extended("verify", verify_body)
    second = await client.extended("verify", verify_body)

    assert first.content == second.content
    assert before == await client.exported()
    assert first.content == (await client.post("/verify", json=verify_body)).content
    assert 400 == (await client.extended("export")).status_code


# -- effects -----------------------------------------------------------------------


def trace(body: dict[str, Any], *calls: str | dict[str, str]) -> dict[str, Any]:
    """Return a verify request of these calls of the chart's tool."""
    items = [
        {
            "type": "function_call",
            "name": "update_patient_chart",
            "arguments": written if isinstance(written, str) else json.dumps(written),
            "call_id": str(number),
        }
        for number, written in enumerate(calls)
    ]
    return {**body, "response": {"output": items}}


async def effects(client: Client, body: dict[str, Any]) -> tuple[str, str | None]:
    """Score and return outcome and reason of the effects."""
    found = (await client.extended("verify", body)).json()["effects"]
    return found["outcome"], found["reason"]


async def test_a_history_knows_the_seed_for_effects(
    extended: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """A verify without a world is assessed on the session's own seed, by both routes."""
    client = await extended(effects=True)
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    body = trace(verify_body, note("a"), "{broken")

    assert ("followed", None) == await effects(client, body)
    found = (await client.post("/verify", json=body)).json()
    assert ("followed", None) == (
        found["effects"]["outcome"],
        found["effects"]["reason"],
    )


async def test_a9_a_call_that_was_cut_off_is_not_in_the_history(
    extended: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """A9: the history leads back to the seed although the trace has a call more."""
    client = await extended(effects=True)
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))
    body = trace(verify_body, note("a"), note("b"))
    said = {"type": "function_call_output", "call_id": "0"}
    said["output"] = "Chart updated for patient P-7742."
    body["response"]["output"].insert(1, said)
    body["response"]["incomplete_details"] = {"reason": "max_output_tokens"}

    assert ("followed", None) == await effects(client, body)


@pytest.mark.parametrize("calls", [[], [note("a"), note("b")]], ids=["less", "more"])
async def test_a_history_of_other_calls_is_not_the_traces(
    extended: Callable[..., Awaitable[Client]],
    verify_body: dict[str, Any],
    calls: list[dict[str, str]],
) -> None:
    """One that began with a restore, say, does not lead back to the seed."""
    client = await extended(effects=True)
    await client.seed()
    await client.post("/update_patient_chart", json=note("a"))

    assert ("not_assessed", "no_seed") == (
        await effects(client, trace(verify_body, *calls))
    )


async def test_without_a_session_there_is_no_seed(
    extended: Callable[..., Awaitable[Client]], verify_body: dict[str, Any]
) -> None:
    """The verdict is given all the same."""
    client = await extended(effects=True)

    assert ("not_assessed", "no_seed") == await effects(client, trace(verify_body))
