"""What must be true: the ledger follows effects, sessions, marks, fences and replies.

It learns from what goes into the machine and what comes out of it, never from the
machine's state, which it only compares. It lives as long as the disk; what belongs to a
process is forgotten with a crash.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from session_records import sessions_of

from ipistate.protocol.actions import STATUS_OF, Read, Reply, Write
from ipistate.protocol.operations import (
    Call,
    CommitBody,
    ForgetBody,
    PrepareBody,
    RenewBody,
    RestoreBody,
    ResumeBody,
    RetireBody,
)
from ipistate.protocol.participant import Phase


if TYPE_CHECKING:
    from ipistate.kernel.values import JsonObject
    from ipistate.protocol import ResourcesPart, ResourcesState
    from ipistate.protocol.episode import EpisodeId
    from simulator.process import Process, Request


FENCED_IDS = 56
"""Fewer than the machine remembers; the oldest of its ids may be any."""

FROZEN = frozenset({Phase.PREPARED, Phase.COMMITTED, Phase.RESTORED})


class Violation(AssertionError):
    """An invariant does not hold."""


def require(holds: bool, rule: str) -> None:
    """Raise unless a rule holds."""
    if not holds:
        raise Violation(rule)


def covers(marks: dict[str, int], episode: EpisodeId | None) -> bool:
    """Tell whether marks refuse an episode."""
    return episode is not None and episode.attempt <= marks.get(episode.rollout_id, -1)


def arguments_of(body: Call) -> tuple[str | None, list[str] | None]:
    """Return what a retry of a call must have in common with the first."""
    scope = getattr(body, "episode_ids", None)
    keys = None if scope is None else sorted(e.capture_key for e in scope)
    return getattr(body, "checkpoint_dir", None), keys


def scope_of(participant: ResourcesState) -> tuple[str, ...] | None:
    """Return the scope of the open checkpoint's cut."""
    opened = participant.control.open
    assert opened is not None
    assert opened.cut is not None
    return opened.cut.arguments.scope


@attrs.define
class Saved:
    """What the last checkpoint or restore holds, and how much had happened by then."""

    logs: dict[str, Any] = attrs.Factory(dict)
    accepted: int = 0
    given_up: frozenset[Any] = frozenset()
    """Restored sessions that the scope left out."""


class Ledger:
    """Where every effect is, and what was promised."""

    def __init__(self) -> None:
        """Nothing has happened."""
        self.tally: Counter[str] = Counter()
        self.contents: dict[str, dict[str, tuple[EpisodeId, Any]]] = {}
        self.order: dict[int, int] = {}
        self.saved = Saved()
        self.begin_process()

    def begin_process(self) -> None:
        """Forget what dies with a process."""
        self.logs: dict[str, tuple[int, ...]] = {}
        self.bound: dict[str, EpisodeId] = {}
        self.unclaimed: set[str] = set()
        self.marks: dict[str, int] = {}
        self.tried: dict[str, int] = {}
        self.past: dict[str, set[str]] = {}
        self.retired: dict[str, str] = {}
        self.done: set[str] = set()
        self.deleting: set[str] = set()
        self.freed_soon: set[str] = set()
        self.fenced: deque[str] = deque(maxlen=FENCED_IDS)
        self.recorded: dict[tuple[type[Call], str], Any] = {}
        self.scopes: dict[int, Any] = {}
        self.installed: Read | None = None
        self.refused: list[Any] = []
        self.born: dict[str, int] = {}

    def crashed(self) -> None:
        """A process died: what it had since its last checkpoint is lost, no more."""
        logs, high = self.saved.logs, self.saved.accepted
        live = self.bound.keys() & self.logs.keys() - self.saved.given_up
        for session in live:
            for number in self.logs[session]:
                kept = number in logs.get(session, ())
                since = max(self.order[number], self.born.get(session, 0))
                require(
                    kept or since > high,
                    "an effect before the last checkpoint is not in it",
                )
                self.tally["effects lost with a crash"] += not kept
        self.begin_process()

    # -- requests

    def admitted(self, request: Request) -> None:
        """A request passed the gate."""
        session, episode = request.session, request.episode
        if request.kind != "/close_session":
            require(not covers(self.marks, episode), "a retired attempt was admitted")
            require(session not in self.retired, "a retired session was admitted")
            bound = self.bound.get(session)
            require(
                episode is None
                or bound is None
                or bound.rollout_id != episode.rollout_id
                or bound.attempt <= episode.attempt,
                "an earlier attempt was admitted to a session",
            )
        self.unclaimed.discard(session)
        self.tally["requests admitted"] += 1

    def turned_away(self, request: Request) -> None:
        """A request was refused, which needs a reason."""
        bound, episode = self.bound.get(request.session), request.episode
        require(request.kind != "/close_session", "a close was refused")
        late = (
            bound is not None
            and episode is not None
            and bound.rollout_id == episode.rollout_id
            and episode.attempt < bound.attempt
        )
        past = self.past.get(request.session, ())
        forks = any(covers(self.tried, wanted) for _, wanted in request.makes)
        retired = forks or covers(self.tried, episode)
        require(
            late or retired or any(r in self.tried for r in past),
            "a request was refused without a reason",
        )
        self.tally["forks refused"] += forks
        self.tally["requests refused"] += 1

    def takes_effect(self, request: Request, phase: Phase) -> None:
        """A handler runs now."""
        require(phase not in FROZEN, "a handler runs in a frozen process")
        if request.kind != "/close_session":
            require(request.session not in self.done, "a retired attempt still runs")

    def seeded(self, session: str, episode: EpisodeId | None) -> None:
        """A seed succeeded."""
        self.logs[session] = ()
        if episode is not None:
            self._bind(session, episode)

    def forked(self, request: Request) -> None:
        """Sessions began with the effects of another one, and stand beside it."""
        require(request.number not in self.order, "a fork took effect twice")
        self.order[request.number] = len(self.order) + 1
        for session, episode in request.makes:
            require(not covers(self.marks, episode), "a retired attempt was forked")
            self.logs[session] = self.logs[request.session]
            self.born[session] = self.order[request.number]
            self._bind(session, episode)
            self.tally["forks"] += 1

    def _bind(self, session: str, episode: EpisodeId) -> None:
        self.bound[session] = episode
        self.past.setdefault(session, set()).add(episode.rollout_id)
        self.unclaimed.discard(session)
        self.done.discard(session)
        self.retired.pop(session, None)
        if covers(self.marks, episode):
            self.retired[session] = episode.rollout_id

    def accepted(self, session: str, number: int) -> None:
        """A call changed a world."""
        require(number not in self.order, "a call took effect twice")
        self.logs[session] = (*self.logs[session], number)
        self.order[number] = len(self.order) + 1
        self.tally["effects"] += 1

    def ended(self, session: str, succeeded: bool) -> None:
        """A verify or a close took a world away."""
        self.logs.pop(session, None)
        if succeeded and session not in self.freed_soon:
            self.bound.pop(session, None)
            self.unclaimed.discard(session)

    # -- checkpoints

    def expected(
        self, scope: tuple[str, ...] | None
    ) -> dict[str, tuple[EpisodeId, tuple[int, ...]]]:
        """Return what a checkpoint of now must hold."""
        return {
            session: (episode, self.logs[session])
            for session, episode in self.bound.items()
            if session in self.logs
            and (
                scope is None
                or session not in self.unclaimed
                or episode.capture_key in scope
            )
        }

    def exporting(self, sessions: tuple[str, ...]) -> None:
        """An export forgets sessions without a world."""
        for session in sessions:
            if session not in self.logs:
                self.bound.pop(session, None)

    def writing(self, action: Write, participant: ResourcesState) -> None:
        """A write begins."""
        scope = scope_of(participant)
        self.scopes[action.write] = scope
        found = {
            r.session_id: (r.episode_id, r.state) for r in sessions_of(action.records)
        }
        require(found == self.expected(scope), "a write does not hold what is live")
        require(action.checkpoint_id not in self.fenced, "a fenced checkpoint writes")
        self.tally["writes"] += 1

    def published(self, action: Write) -> None:
        """A manifest appeared."""
        require(action.checkpoint_id not in self.fenced, "a manifest after the resume")
        found = self.expected(self.scopes[action.write])
        records = {
            r.session_id: (r.episode_id, r.state) for r in sessions_of(action.records)
        }
        require(found == records, "a manifest does not stand for what is live")
        self.contents[action.directory] = records
        self._save(records, frozenset(self.unclaimed - records.keys()))
        self.tally["checkpoints published"] += 1

    def _save(
        self,
        records: dict[str, tuple[EpisodeId, Any]],
        given_up: frozenset[str] = frozenset(),
    ) -> None:
        logs = {session: log for session, (_, log) in records.items()}
        self.saved = Saved(logs, len(self.order), given_up)

    def installing(self, states: dict[str, tuple[int, ...]], process: Process) -> None:
        """A restore puts worlds in place."""
        assert process.found is not None
        action, _ = process.found
        require(not self.bound and not process.running, "restored into a used process")
        written = self.contents[action.directory]
        kept = {s: r for s, r in written.items() if r[0] in action.scope}
        require(
            states == {session: log for session, (_, log) in kept.items()},
            "a restore installs something else than the scope",
        )
        numbers = [number for log in states.values() for number in log]
        self._require_one_past(states.values())
        self.logs |= states
        self.bound = {s: episode.next_attempt for s, (episode, _) in kept.items()}
        for session, episode in self.bound.items():
            self.past.setdefault(session, set()).add(episode.rollout_id)
            self.retired.pop(session, None)
            if covers(self.marks, episode):
                self.retired[session] = episode.rollout_id
        self.unclaimed = set(self.bound) - set(self.retired)
        self.done.difference_update(self.bound)
        self.installed = action
        self._save(kept)
        self.tally["effects restored"] += len(numbers)

    @staticmethod
    def _require_one_past(logs: Iterable[tuple[int, ...]]) -> None:
        # Forks share effects, and then everything before them.
        pasts: dict[int, tuple[int, ...]] = {}
        for log in logs:
            for place, number in enumerate(log):
                past = pasts.setdefault(number, log[:place])
                require(past == log[:place], "an effect in two places")

    def sweeping(self, sessions: tuple[str, ...], process: Process) -> None:
        """Idle sessions are dropped."""
        require(process.phase is Phase.IDLE, "swept while a checkpoint is open")
        used = {request.session for request in process.running.values()}
        for session in sessions:
            require(session not in used, "a session was swept while it is used")
            require(session not in self.freed_soon, "swept while it is freed")
            self.tally["sessions swept"] += self.logs.pop(session, None) is not None
            self.bound.pop(session, None)
            self.unclaimed.discard(session)

    def freeing(self, sessions: tuple[str, ...], process: Process) -> None:
        """Worlds are about to be dropped."""
        self._require_unused(sessions, process)
        self.freed_soon.update(sessions)
        for session in sessions:
            episode = self.bound[session]
            if process.phase is Phase.PREPARED:
                kept = scope_of(process.participant)
                require(
                    kept is not None and episode.capture_key not in kept,
                    "a session of the scope is deleted",
                )
                self.deleting.add(session)
                self.tally["sessions deleted"] += 1
            else:
                require(covers(self.tried, episode), "what nobody retired is freed")
                self.retired[session] = episode.rollout_id
                self.tally["sessions retired"] += 1

    def freed(self, sessions: tuple[str, ...], process: Process) -> None:
        """Worlds have been dropped, now or a while after it was decided."""
        self._require_unused(sessions, process)
        self.deleting.difference_update(sessions)
        self.freed_soon.difference_update(sessions)
        for session in sessions:
            self.logs.pop(session, None)
            self.bound.pop(session, None)
            self.unclaimed.discard(session)

    def _require_unused(self, sessions: tuple[str, ...], process: Process) -> None:
        # A close passes whenever it likes; it frees the session itself.
        busy = {
            request.session
            for request in process.running.values()
            if request.kind != "/close_session"
        }
        require(not busy & set(sessions), "a session is freed while it is used")
        for session in sessions:
            require(
                session in self.unclaimed
                or session not in self.logs
                or covers(self.tried, self.bound.get(session)),
                "a live session is deleted",
            )

    # -- control calls

    def called(self, body: Call) -> None:
        """A call reaches the machine."""
        if isinstance(body, RetireBody):
            self._raise(self.tried, body)

    def replied(self, body: Call, action: Reply, process: Process) -> None:
        """A call is answered."""
        operation = type(body)
        self.tally[f"{operation.__name__.removesuffix('Body').lower()}s answered"] += 1
        if action.status == 200:
            if operation in {PrepareBody, CommitBody, RestoreBody}:
                self._compare(body, action.document)
            _SUCCEEDED[operation](self, body, action.document, process)
            return
        recorded = self.recorded.get((operation, body.checkpoint_id))
        if recorded is not None and recorded[0] == arguments_of(body):
            self.refused.append(body.checkpoint_id)
        error: Any = action.document["error"]
        code = error["code"]
        require(STATUS_OF[code] == action.status, "a code with another status")
        self.tally[f"refused with {code}"] += 1
        if isinstance(body, RetireBody) and code == "deadline_exceeded":
            self._retire(body)
        if isinstance(body, RestoreBody):
            require(self.installed is None, "a failed restore leaves something")

    def _compare(self, body: Call, document: JsonObject) -> None:
        key = type(body), body.checkpoint_id
        entry = arguments_of(body), document
        if key in self.recorded:
            require(entry == self.recorded[key], "a recorded reply is not repeated")
            self.tally["replies repeated"] += 1
        elif document["phase"] in {"prepared", "committed", "restored"}:
            require(body.checkpoint_id not in self.fenced, "a fenced id was accepted")
            self.recorded[key] = entry

    def _prepared(
        self, body: PrepareBody, document: JsonObject, process: Process
    ) -> None:
        if body.checkpoint_id in self.fenced:
            require(document["phase"] == "idle", "a fenced id was prepared")
        prepared = document["phase"] == "prepared"
        report: Any = document["report"]
        require(report["ready"] or not prepared, "prepared but not ready")
        require(not prepared or not process.running, "prepared while something runs")

    def _renewed(self, body: RenewBody, document: JsonObject, _: Process) -> None:
        require(body.checkpoint_id not in self.fenced, "a fenced id was renewed")
        until: Any = document["lease_expires_at"]
        require(until >= body.deadline_ts, "a lease ends before its deadline")

    def _committed(
        self, body: CommitBody, document: JsonObject, process: Process
    ) -> None:
        directory = process.world.disk.directories[body.checkpoint_dir]
        require(
            directory.manifest is not None
            and document["manifest"] == directory.manifest.to_document(),
            "a commit succeeded without its manifest",
        )
        require("manifest" not in directory.unsynced, "a commit is not durable")
        keys = {e.capture_key for e, _ in self.contents[body.checkpoint_dir].values()}
        require(document["episode_ids"] == sorted(keys), "a commit names others")
        if process.phase is not Phase.COMMITTED or body.episode_ids is None:
            return
        for session in self.unclaimed:
            require(
                self.bound[session] in body.episode_ids,
                "a restored session outside the scope outlived the commit",
            )

    def _restored(self, body: RestoreBody, document: JsonObject, _: Process) -> None:
        if self.installed is None:
            return  # a repeated reply
        require(
            (self.installed.directory, self.installed.scope)
            == (body.checkpoint_dir, body.episode_ids),
            "a restore installed what another one asked for",
        )
        self.installed = None
        keys = sorted(episode.capture_key for episode in self.bound.values())
        require(document["restored"] == keys, "a restore names others")
        self.tally["restores"] += 1

    def _resumed(self, body: ResumeBody, document: JsonObject, _: Process) -> None:
        require(document["phase"] == "idle", "a resume that does not reopen")
        self._fence(body.checkpoint_id)

    def _retired(self, body: RetireBody, _: JsonObject, process: Process) -> None:
        self._retire(body)
        marks: dict[str, int] = {}
        self._raise(marks, body)
        for episode in self.bound.values():
            require(not covers(marks, episode), "a retired session is still there")
        for request in process.running.values():
            if request.kind == "/seed_session":
                require(not covers(marks, request.episode), "a retired seed still runs")
        self.done |= {s for s, r in self.retired.items() if r in marks} - set(
            self.bound
        )

    def _forgotten(
        self, body: ForgetBody, document: JsonObject, process: Process
    ) -> None:
        require(document["forgotten"] == sorted(set(body.rollout_ids)), "others named")
        for session, episode in self.bound.items():
            require(
                episode.rollout_id not in body.rollout_ids
                or not covers(self.marks, episode),
                f"{session} was forgotten before it was freed",
            )
        for request in process.running.values():
            require(
                request.kind != "/seed_session"
                or not covers(self.marks, request.episode)
                or request.episode is None
                or request.episode.rollout_id not in body.rollout_ids,
                "an attempt was forgotten while it is seeded",
            )
        for rollout in body.rollout_ids:
            self.marks.pop(rollout, None)
        self.retired = {
            s: r for s, r in self.retired.items() if r not in body.rollout_ids
        }
        self.done &= set(self.retired)

    def _retire(self, body: RetireBody) -> None:
        self._raise(self.marks, body)
        for session, episode in self.bound.items():
            if covers(self.marks, episode):
                self.retired[session] = episode.rollout_id
                self.unclaimed.discard(session)

    @staticmethod
    def _raise(marks: dict[str, int], body: RetireBody) -> None:
        for episode in body.episode_ids:
            name = episode.rollout_id
            marks[name] = max(marks.get(name, -1), episode.attempt)

    def _fence(self, checkpoint_id: str) -> None:
        if checkpoint_id not in self.fenced:
            self.fenced.append(checkpoint_id)
        for key in [key for key in self.recorded if key[1] == checkpoint_id]:
            del self.recorded[key]

    # -- what always holds

    def moved(
        self, before: ResourcesState, after: ResourcesState, dropped: bool
    ) -> None:
        """The machine took an event; a checkpoint that closed by itself is fenced."""
        old, new = before.control.open, after.control.open
        name = None if new is None else new.id
        require(name not in self.refused, "a retry is refused though it was done")
        self.refused.clear()
        gone = {key[1] for key in self.recorded} - {name}
        if old is not None and old.id == name:
            assert new is not None
            shrinks = new.lease_expires_at < old.lease_expires_at
            require(not shrinks, "the lease shrinks")
        elif old is not None and not dropped:
            gone.add(old.id)
        for closed in sorted(gone):
            self.tally["leases run out"] += closed not in self.fenced
            self._fence(closed)

    def check(self, worlds: dict[str, tuple[int, ...]], gate: ResourcesPart) -> None:
        """Every effect is where it belongs, and every session is tracked."""
        require(not (self.deleting and gate.is_open), "reopened while it deletes")
        require(worlds == self.logs, "the worlds are not what was accepted")
        require(gate.sessions == self.bound, "other sessions are tracked")
        require(self.done.isdisjoint(worlds), "a retired session has a world")


_SUCCEEDED: dict[type, Callable[[Ledger, Any, JsonObject, Process], None]] = {
    PrepareBody: Ledger._prepared,
    RenewBody: Ledger._renewed,
    CommitBody: Ledger._committed,
    RestoreBody: Ledger._restored,
    ResumeBody: Ledger._resumed,
    RetireBody: Ledger._retired,
    ForgetBody: Ledger._forgotten,
}
