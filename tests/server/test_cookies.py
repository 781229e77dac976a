"""Session cookies: the exact text, the rules, and exchange with Starlette's own."""

from __future__ import annotations

import json
import uuid

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from hypothesis import given
from hypothesis import strategies as st
from itsdangerous import TimestampSigner
from starlette.applications import Starlette
from starlette.datastructures import Secret
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route

from ipistate.protocol import COOKIE_MAX_AGE as MAX_AGE
from ipistate.protocol.episode import MAX_SESSION_ID
from ipistate.server.adapter.cookies import (
    CLOCK_SKEW,
    REMEMBERED_BYTES,
    SessionCookie,
)


if TYPE_CHECKING:
    from starlette.requests import Request
    from tests.server.conftest import Client


pytestmark = pytest.mark.anyio

NAME = "IPIResourcesServer___ipi"
ISSUED = 1_790_000_000
SESSION = {"session_id": "3f0c4f1e-6f0e-4b7c-9a55-0c2f6d1f7a10"}
VALUE = (
    "eyJzZXNzaW9uX2lkIjogIjNmMGM0ZjFlLTZmMGUtNGI3Yy05YTU1LTBjMmY2ZDFmN2ExMCJ9"
    ".arE7gA.-AK7vcFEQzGU-zaamEdOnJ86Chc"
)


def cookie_at(moment: int, name: str = NAME, secret: str = NAME) -> SessionCookie:
    """Return the cookie of a server whose clock stands still."""
    return SessionCookie(name, secret, lambda: moment)


def scope_with(value: str, name: str = NAME) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return a request that carries one cookie."""
    return {"headers": [(b"cookie", f"{name}={value}".encode())]}


def session_of(response: httpx.Response, name: str = NAME) -> dict[str, int | str]:
    """Return the session that a response's cookie carries."""
    return cookie_at_any_time(name).read(scope_with(response.cookies[name], name))


def cookie_at_any_time(name: str = NAME) -> SessionCookie:
    """Return a cookie that reads values of today."""
    return SessionCookie(name, name)


def signed(payload: bytes) -> str:
    """Sign a payload, as anyone who knows the secret can, now."""
    return TimestampSigner(NAME).sign(b64encode(payload)).decode()


def signed_then(value: bytes) -> str:
    """Sign a value when the example was issued."""
    signer = TimestampSigner(NAME)
    signer.get_timestamp = lambda: ISSUED  # type: ignore[method-assign]
    return signer.sign(value).decode()


def test_example_of_the_specification_is_written_byte_for_byte() -> None:
    """The worked example's header is what these inputs give."""
    expected = (
        f"{NAME}={VALUE}; path=/; Max-Age=1209600; httponly; samesite=lax".encode()
    )

    assert expected == cookie_at(ISSUED).write(SESSION)


@pytest.mark.parametrize(
    ("age", "expected"),
    [
        *((0, SESSION), (MAX_AGE, SESSION), (MAX_AGE + 1, {})),
        *((-1, SESSION), (-CLOCK_SKEW, SESSION), (-CLOCK_SKEW - 1, {})),
    ],
)
def test_example_is_read_until_its_max_age(age: int, expected: dict[str, str]) -> None:
    """B5: A cookie is good for 14 days, also if its signer's clock was ahead of ours."""
    assert expected == cookie_at(ISSUED + age).read(scope_with(VALUE))


def test_a_private_secret_shuts_out_the_public_one() -> None:
    """Cookies signed with another secret are no cookies."""
    assert {} == cookie_at(ISSUED, secret="private").read(scope_with(VALUE))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x",
        "a.b.c",
        VALUE[:-1] + "A",
        "A" + VALUE[1:],
        "\xe9",
        signed_then(b64encode(b"not json")),
        signed_then(b64encode(b"[1]")),
        signed_then(b64encode(b"[" * 100_000)),
        signed_then(b"%%%"),
        signed_then(b"abc"),
    ],
)
def test_a_value_that_is_no_session_is_no_cookie(value: str) -> None:
    """Bad signatures and signed nonsense read as an empty session, never raise."""
    assert {} == cookie_at(ISSUED).read(scope_with(value))


def test_a_signed_timestamp_beyond_the_calendar_is_no_cookie() -> None:
    """Who knows the public secret can sign any time; it must not raise."""
    signer = TimestampSigner(NAME)
    signer.get_timestamp = lambda: 2**63  # type: ignore[method-assign]
    value = signer.sign(b64encode(json.dumps(SESSION).encode())).decode()

    assert {} == cookie_at(ISSUED).read(scope_with(value))


@given(
    st.dictionaries(
        st.text(), st.none() | st.booleans() | st.integers() | st.text(), max_size=4
    )
)
def test_what_is_written_is_read(extra: dict[str, Any]) -> None:
    """A session survives its cookie, whatever else it carries."""
    session = {**extra, **SESSION}
    header = cookie_at(ISSUED).write(session).decode()
    value = header.partition("=")[2].partition(";")[0]

    assert session == cookie_at(ISSUED).read(scope_with(value))


HEADERS = st.sampled_from(
    [
        f"{NAME}={VALUE}",
        f"{NAME}={VALUE[:-1]}A",
        f"a=b; {NAME}={VALUE}",
        f"{NAME}={VALUE}; {NAME}=x",
        cookie_at(ISSUED, secret="other").pair({}),
        "a=b",
    ]
)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("wait"), st.sampled_from([0.3, 1.0, -2.0, MAX_AGE])),
            st.tuples(st.just("read"), st.lists(HEADERS, max_size=2)),
            st.tuples(st.just("write"), st.sampled_from([SESSION, {}, {"a": [1.0]}])),
            st.tuples(st.just("read back"), st.integers(0, 5)),
        ),
        max_size=12,
    )
)
def test_remembering_changes_nothing(steps: list[tuple[str, Any]]) -> None:
    """What was read and written before makes no cookie better, younger or different."""
    now, written = [ISSUED + 0.5], [f"{NAME}={VALUE}"]
    known = SessionCookie(NAME, NAME, lambda: now[0])
    for name, argument in steps:
        fresh = SessionCookie(NAME, NAME, lambda: now[0])
        if name == "wait":
            now[0] += argument
        elif name == "write":
            assert fresh.write(argument) == known.write(argument)
            written.append(fresh.pair(argument))
        else:
            is_new = name == "read"
            headers = argument if is_new else [written[argument % len(written)]]
            given = [header.encode() for header in headers]
            found = known.session(given)
            assert fresh.session(given) == found
            found["session_id"] = "changed by whoever asked"


def test_what_is_remembered_is_bounded() -> None:
    """Cookies that are forgotten, or too long to be remembered, are as good as before."""
    cookie = cookie_at(ISSUED)
    first = cookie.pair(SESSION).encode()
    long = cookie.pair({**SESSION, "x": "y" * 7_000_000}).encode()
    for number in range(REMEMBERED_BYTES // 600):
        cookie.write({"session_id": str(number)})

    for memory in (cookie._signed, cookie._verified):
        assert len(memory) < REMEMBERED_BYTES // 600
        assert {first, long}.isdisjoint(memory._entries)
    assert SESSION == cookie.session([first])
    assert "y" == cookie.session([long])["x"][0]


def starlette_server() -> Starlette:
    """Return a server with Starlette's own session layer."""

    async def remember(request: Request[Any]) -> JSONResponse:
        request.session["seen"] = request.session.get("seen", 0) + 1
        return JSONResponse(request.session)

    layer = Middleware(SessionMiddleware, secret_key=NAME, session_cookie=NAME)
    return Starlette(routes=[Route("/", remember)], middleware=[layer])


async def test_starlette_reads_our_cookie_and_we_read_starlettes(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """Sessions cross between the two layers in both directions, extra keys included."""
    ours = await connect()
    first = await ours.get("/health")
    transport = httpx.ASGITransport(starlette_server())
    async with httpx.AsyncClient(
        transport=transport, base_url="http://server.test", cookies=first.cookies
    ) as theirs:
        middle = await theirs.get("/")
        back = await theirs.get("/")
    ours.cookies = back.cookies
    last = await ours.get("/health")

    assert {**session_of(first), "seen": 1} == middle.json()
    assert {**session_of(first), "seen": 2} == session_of(last)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/unknown", 405),
        ("GET", "/a/b", 404),
        ("POST", "/seed_session", 422),
        ("POST", "/any_tool", 422),
        ("GET", "/ng-control/v1/checkpoint/status", 401),
    ],
)
async def test_every_response_sends_the_session_again(
    connect: Callable[..., Awaitable[Client]], method: str, path: str, status: int
) -> None:
    """All statuses carry the cookie with the request's own id, and Vary."""
    client = await connect(cookies={NAME: signed(json.dumps(SESSION).encode())})
    response = await client.request(method, path)

    assert status == response.status_code
    assert session_of(response) == SESSION
    assert response.headers["vary"] == "Cookie"


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"session_id": 7},
        {"session_id": ""},
        {"session_id": None},
        {"session_id": "a b"},
        {"session_id": "é"},
        {"session_id": "x" * (MAX_SESSION_ID + 1)},
    ],
)
async def test_a_session_without_a_usable_id_gets_one(
    connect: Callable[..., Awaitable[Client]], payload: dict[str, Any]
) -> None:
    """The id is a new UUID of version 4; other members of the payload are kept."""
    kept = {"nemo_gym_worker": "0" * 32}
    value = signed(json.dumps({**payload, **kept}).encode())
    client = await connect(cookies={NAME: value})
    session = session_of(await client.get("/health"))

    assert uuid.UUID(str(session.pop("session_id"))).version == 4
    assert kept == session


@pytest.mark.parametrize("path", ["/get_patient_record", "/verify", "/close_session"])
async def test_b5_a_cookie_that_cannot_be_used_is_not_replaced(
    connect: Callable[..., Awaitable[Client]], path: str
) -> None:
    """It may be good for a server with another clock; a client has only this one."""
    client = await connect(cookies={NAME: f"{VALUE}x"})
    response = await client.post(path, json={})

    assert "set-cookie" not in response.headers
    assert response.headers["vary"] == "Cookie"


async def test_b5_a_seed_replaces_a_cookie_that_cannot_be_used(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """It starts a session, to which the client needs a way."""
    client = await connect(cookies={NAME: f"{VALUE}x"})
    response = await client.post("/seed_session", json={"environment": {}})

    assert uuid.UUID(str(session_of(response)["session_id"])).version == 4


async def test_requests_without_cookie_get_different_sessions(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """A new id is minted for each."""
    client = await connect()
    first = session_of(await client.get("/health"))
    client.cookies.clear()

    assert first != session_of(await client.get("/health"))


async def test_a_server_with_a_private_secret_signs_with_it(
    connect: Callable[..., Awaitable[Client]],
) -> None:
    """Its own cookie is accepted, one signed with the public secret is not."""
    client = await connect(cookie_secret=Secret("private"))
    own = (await client.get("/health")).cookies[NAME]
    again = (await client.get("/health")).cookies[NAME]
    public = cookie_at_any_time().read(scope_with(own))
    private = SessionCookie(NAME, "private")

    assert {} == public
    assert private.read(scope_with(own)) == private.read(scope_with(again))


async def test_b52_a_long_session_id_is_refused(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """5,000 characters are refused; the longest id stays under 300 bytes of cookie."""
    client = await connect()

    def native(name: str) -> dict[str, Any]:
        return {
            "resources_session_id": name,
            "episode_id": {"rollout_id": "r"},
            "task_id": {},
            "task_data": {"environment": world},
        }

    long = await client.post("/seed_session", json=native("x" * 5000))
    longest = await client.post("/seed_session", json=native("x" * MAX_SESSION_ID))

    assert long.status_code == 422
    assert long.json()["detail"][0]["loc"] == ["body", "resources_session_id"]
    assert len(long.content) < 500
    assert session_of(longest) == {"session_id": "x" * MAX_SESSION_ID}
    assert len(longest.headers["set-cookie"]) < 300


async def test_b53_two_servers_share_a_jar(
    connect: Callable[..., Awaitable[Client]], world: dict[str, Any]
) -> None:
    """Cookies are named by instance, so one server does not overwrite the other's."""
    one = await connect(instance_name="one")
    two = await connect(instance_name="two")
    two.cookies = one.cookies
    for client, name in ((one, "first"), (two, "second")):
        world["patients"]["P-7742"]["name"] = name
        await client.post("/seed_session", json={"environment": world})
        one.cookies.update(two.cookies)
        two.cookies = one.cookies
    call = ("/get_patient_record", {"patient_id": "P-7742"})
    replies = [(await c.post(call[0], json=call[1])).json() for c in (one, two)]

    assert "first" in replies[0]["output"]
    assert "second" in replies[1]["output"]
