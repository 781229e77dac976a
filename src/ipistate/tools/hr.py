"""HR: candidates, interviews, positions and mail (docs/reference/tools.md, section 4.2)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import (
    EMPTY_ARRAY,
    EMPTY_OBJECT,
    JsonObject,
    JsonValue,
    trusted_array,
)
from ipistate.tools.filters import equals, lowered_equals, select
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import (
    field,
    first_with,
    lower,
    required,
    search,
    text,
    walk,
)
from ipistate.tools.world import (
    Change,
    append,
    assign,
    create,
    look_up,
    put_back,
    record,
    table,
    update,
)


@attrs.frozen(kw_only=True)
class Candidate(Row):
    """A row of ``candidates``."""

    candidate_id: str
    name: str
    email: str | None = None
    position_applied: str | None = None
    status: str | None = None
    resume: str | None = None
    application_notes: str | None = None


@attrs.frozen(kw_only=True)
class Interview(Row):
    """A row of ``interviews``; feedback alone leaves date, time and status out."""

    interview_id: str
    candidate_id: str
    interviewer_email: str | None = None
    date: str | None = None
    time: str | None = None
    status: str | None = None


@attrs.frozen(kw_only=True)
class Position(Row):
    """A row of ``open_positions``."""

    position_id: str
    title: str
    status: str | None = None


RECORDS: Final[Records] = {
    "candidates": Candidate,
    "interviews": Interview,
    "open_positions": Position,
}

_SEARCHED: Final = ("name", "resume", "application_notes", "position_applied")


def search_candidates(
    world: JsonObject, query: JsonValue, status: JsonValue = None
) -> Change:
    """Search candidates by name, resume, notes or position."""
    needle = lower(query)
    holds = search(needle)
    # Unlike other filters, an empty status is a wish: candidates without one.
    has_status = None if status is None else lowered_equals("status", status)
    shown: list[JsonValue] = []
    for row in walk(table(world, "candidates")):
        texts = [lower(field(row, name, "")) for name in _SEARCHED]
        found = any(holds(one, needle) for one in texts)
        if found and (has_status is None or has_status(row)):
            candidate_id = required(row, "candidate_id")
            shown.append(record(candidate_id=candidate_id, name=required(row, "name")))
    return world, trusted_array(shown)


def get_candidate_profile(world: JsonObject, candidate_id: JsonValue) -> Change:
    """Read a candidate's full profile."""
    return world, look_up(table(world, "candidates"), candidate_id, "Candidate")


def update_candidate_status(
    world: JsonObject, candidate_id: JsonValue, status: JsonValue
) -> Change:
    """Set a candidate's application status."""
    where = ("candidates", "Candidate", candidate_id)
    reply = f"Status updated for candidate {text(candidate_id)} to '{text(status)}'."
    return update(world, where, {"status": status}, reply)


def schedule_interview(
    world: JsonObject,
    candidate_id: JsonValue,
    interviewer_email: JsonValue,
    date: JsonValue,
    time: JsonValue,
) -> Change:
    """Schedule an interview with a candidate."""
    members = record(
        candidate_id=candidate_id,
        interviewer_email=interviewer_email,
        date=date,
        time=time,
        status="scheduled",
    )
    world, row = create(world, "interviews", ("interview_id", "I-"), members)
    who = f"candidate {text(candidate_id)} on {text(date)} at {text(time)}"
    return world, f"Interview {text(row['interview_id'])} scheduled for {who}."


def get_interview_schedule(world: JsonObject, date: JsonValue = None) -> Change:
    """Read the interviews, of one day or all."""
    rows = walk(table(world, "interviews"))
    return world, select(rows, None if date is None else equals("date", date))


def submit_interview_feedback(
    world: JsonObject, candidate_id: JsonValue, feedback: JsonValue, rating: JsonValue
) -> Change:
    """Record feedback and a rating for a candidate's interview."""
    reply = f"Feedback submitted for candidate {text(candidate_id)}."
    said = {"feedback": feedback, "rating": rating}
    found = first_with(table(world, "interviews"), "candidate_id", candidate_id)
    if found is not None:
        key, row = found
        return put_back(world, "interviews", key, assign(row, said)), reply
    members = record(candidate_id=candidate_id, **said)
    world, _ = create(world, "interviews", ("interview_id", "I-"), members)
    return world, reply


def send_offer(
    world: JsonObject,
    candidate_id: JsonValue,
    position: JsonValue,
    salary: JsonValue,
    start_date: JsonValue,
) -> Change:
    """Send a job offer to a candidate."""
    offer = record(
        type="offer",
        candidate_id=candidate_id,
        position=position,
        salary=salary,
        start_date=start_date,
    )
    who = f"candidate {text(candidate_id)} for position '{text(position)}'"
    return append(world, "sent_actions", offer), f"Offer sent to {who}."


def send_email(
    world: JsonObject, recipient: JsonValue, subject: JsonValue, body: JsonValue
) -> Change:
    """Send an e-mail."""
    user = world.get("current_user", EMPTY_OBJECT)
    sender = field(user, "email", "system@company.example")
    message = record(
        **{"from": sender, "to": recipient},
        subject=subject,
        body=body,
        timestamp="sent",
    )
    box = "inbox" if "inbox" in world else "messages"
    return append(world, box, message), f"Email sent to {text(recipient)}."


def get_inbox(world: JsonObject) -> Change:
    """Read the inbox."""
    return world, world.get("inbox", world.get("messages", EMPTY_ARRAY))


def get_open_positions(world: JsonObject) -> Change:
    """List the open positions."""
    return world, trusted_array(walk(table(world, "open_positions")))


def create_job_posting(
    world: JsonObject,
    title: JsonValue,
    description: JsonValue,
    requirements: JsonValue,
) -> Change:
    """Publish a job posting."""
    members = record(
        title=title, description=description, requirements=requirements, status="open"
    )
    world, row = create(world, "open_positions", ("position_id", "POS-"), members)
    new_id = text(row["position_id"])
    return world, f"Job posting '{text(title)}' created with ID {new_id}."


HR: Final = (
    tool(search_candidates, "hr", reads=["candidates"]),
    tool(get_candidate_profile, "hr", reads=["candidates"]),
    tool(update_candidate_status, "hr", writes=["candidates"]),
    tool(schedule_interview, "hr", writes=["interviews"]),
    tool(get_interview_schedule, "hr", reads=["interviews"]),
    tool(submit_interview_feedback, "hr", writes=["interviews"]),
    tool(send_offer, "hr", writes=["sent_actions"]),
    tool(send_email, "hr", reads=["current_user"], writes=["inbox", "messages"]),
    tool(get_inbox, "hr", reads=["inbox", "messages"]),
    tool(get_open_positions, "hr", reads=["open_positions"]),
    tool(create_job_posting, "hr", writes=["open_positions"]),
)
