"""Rollouts of a policy that costs nothing, beside the same requests without a runner."""

from __future__ import annotations

import asyncio
import gc
import tempfile

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter

import attrs

from client import Connection
from report import Row
from servers import Served, served

from ipistate.agents.items import input_messages
from ipistate.agents.policy import PolicyReply
from ipistate.generate import builtin
from ipistate.kernel.codec import encode
from ipistate.kernel.values import JsonObject
from ipistate.policies import ScriptedPolicy, Scripts
from ipistate.rollouts.configuration import Configuration
from ipistate.rollouts.lifecycle import RunOutcome, run
from ipistate.rollouts.records import RunFiles, opened
from ipistate.rollouts.runner import RunOrder
from ipistate.rollouts.tasks import TaskFile, open_tasks
from ipistate.scoring.trajectories import by_row


_CONCURRENCY = 16
_REPEATS = 24
_ROUNDS = 5
_BUDGET = 0.7


def rows() -> Iterator[Row]:
    """Measure the runner's rate of requests beside that of a bare client."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(served("ours", folder))
        tasks = _tasks(folder)
        policy = asyncio.run(_Known.of(tasks))
        requests = asyncio.run(_requests(tasks, policy))
        count = _REPEATS * sum(len(one) for one in requests)
        ours: list[float] = []
        floor: list[float] = []
        for number in range(_ROUNDS + 1):
            first = _timed(_runner(folder, number, server, tasks, policy))
            second = _timed(_bare(server, requests * _REPEATS))
            if number:
                ours.append(count / first)
                floor.append(count / second)
    yield _row(ours, floor, len(tasks) * _REPEATS, count)


@attrs.frozen
class _Known:
    """Has every reply ready, by the user's words and the length of the conversation."""

    replies: dict[tuple[str, int], PolicyReply]
    name: str = "known"

    @classmethod
    async def of(cls, tasks: TaskFile) -> _Known:
        """Ask the careful policy for every turn of every row once."""
        ways = by_row(builtin.trajectories(), len(tasks))
        careful = ScriptedPolicy("careful", Scripts.of(tasks.tasks(), ways))
        replies: dict[tuple[str, int], PolicyReply] = {}
        for row, task in enumerate(tasks.tasks()):
            said = list(input_messages(task.responses_create_params))
            for turn in range(len(ways[row].benign) + 1):
                reply = await careful.respond(said, ())
                replies[str(said[1]["content"]), len(said)] = reply
                said += [*reply.items, JsonObject({"turn": turn})]
        return cls(replies)

    async def respond(
        self, conversation: Sequence[JsonObject], tools: Sequence[JsonObject]
    ) -> PolicyReply:
        """Look the reply up."""
        del tools
        return self.replies[str(conversation[1]["content"]), len(conversation)]


def _tasks(folder: Path) -> TaskFile:
    path = folder / "tasks.jsonl"
    path.write_bytes(b"".join(task.to_json() + b"\n" for task in builtin.rows()))
    return open_tasks(path)


async def _requests(tasks: TaskFile, policy: _Known) -> list[list[tuple[str, bytes]]]:
    """Write down what an episode of each row sends."""
    found: list[list[tuple[str, bytes]]] = []
    for row, task in enumerate(tasks.tasks()):
        said = list(input_messages(task.responses_create_params))
        sent = [("/seed_session", tasks.line(row))]
        output: list[JsonObject] = []
        while True:
            reply = await policy.respond(said, ())
            output += reply.items
            item = reply.items[0]
            if item["type"] != "function_call":
                break
            sent.append((f"/{item['name']}", str(item["arguments"]).encode()))
            answer = JsonObject(
                {
                    "type": "function_call_output",
                    "call_id": item["call_id"],
                    "output": "x" * 400,
                }
            )
            output.append(answer)
            said += [item, answer]
        whole = {**tasks.document(row), "response": {"output": output}}
        sent.append(("/verify", encode(JsonObject(whole))))
        found.append(sent)
    return found


class _Nobody:
    def __getattr__(self, name: str) -> object:
        return lambda *_: None


async def _runner(
    folder: Path, number: int, server: Served, tasks: TaskFile, policy: _Known
) -> RunOutcome:
    configuration = Configuration(
        tasks_sha256=tasks.sha256,
        tasks=len(tasks),
        num_repeats=_REPEATS,
        max_steps=50,
        policy="known",
        policy_options=JsonObject(),
        seed=number,
        effects=False,
    )
    order = RunOrder(
        tasks=tasks,
        policies=(policy,),
        concurrency=_CONCURRENCY,
        url=f"http://127.0.0.1:{server.port}",
    )
    files = RunFiles(folder / f"rows-{number}.jsonl")
    with opened(files, configuration, resume=False) as records:
        outcome = await run(order, records, _Nobody(), asyncio.Event())  # type: ignore[arg-type]
    assert outcome.unfinished == 0, outcome
    return outcome


async def _bare(server: Served, episodes: list[list[tuple[str, bytes]]]) -> None:
    queue = iter(episodes)

    async def work() -> None:
        connection = await Connection.open(server.port)
        for episode in queue:
            connection.cookie = b""
            for path, body in episode:
                await connection.post(path, body)
        connection.close()

    await asyncio.gather(*(work() for _ in range(_CONCURRENCY)))


def _timed(work: object) -> float:
    gc.collect()
    start = perf_counter()
    asyncio.run(work)  # type: ignore[arg-type]
    return perf_counter() - start


def _row(ours: list[float], floor: list[float], episodes: int, count: int) -> Row:
    ratios = [one / other for one, other in zip(ours, floor, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    each = count / episodes
    return Row(
        work=f"rollouts of {each:.1f} requests, {_CONCURRENCY} at a time",
        figure=f"{median(ours) / each:,.0f} episodes/s, {median(ours):,.0f} requests/s",
        floor=f"the same requests, bare client: {median(floor):,.0f}/s",
        ratio=median(ratios),
        budget=_BUDGET,
        at_least=True,
        spread=(low, high),
    )
