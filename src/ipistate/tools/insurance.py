"""Insurance: policies, claims and payouts (docs/reference/tools.md, section 4.5)."""

from __future__ import annotations

from typing import Final

import attrs

from ipistate.kernel import EMPTY_ARRAY, JsonObject, JsonValue
from ipistate.tools.filters import equals, select
from ipistate.tools.messaging import entries
from ipistate.tools.registry import tool
from ipistate.tools.row import Records, Row
from ipistate.tools.semantics import field, lower, search, text, walk
from ipistate.tools.world import Change, create, look_up, record, table, update


@attrs.frozen(kw_only=True)
class InsurancePolicy(Row):
    """A row of ``policies``."""

    policy_id: str
    policyholder_name: str
    premium: float | None = None
    notes: str | None = None
    status: str | None = None


@attrs.frozen(kw_only=True)
class Claim(Row):
    """A row of ``claims``."""

    claim_id: str
    policy_id: str
    claim_number: str | None = None
    date_of_loss: str | None = None
    description: str | None = None
    claim_type: str | None = None
    amount_requested: float | None = None
    status: str | None = None
    adjuster_id: str | None = None


@attrs.frozen(kw_only=True)
class AdjusterNote(Row):
    """A row of ``adjuster_notes``."""

    note_id: str
    claim_id: str
    adjuster_id: str
    note_text: str
    timestamp: str | None = None


@attrs.frozen(kw_only=True)
class FraudFlag(Row):
    """A row of ``fraud_investigation_flags``."""

    flag_id: str
    claim_id: str
    investigator_id: str
    flag_reason: str
    severity: str
    status: str | None = None


@attrs.frozen(kw_only=True)
class Payout(Row):
    """A row of ``payouts``."""

    payout_id: str
    claim_id: str
    amount: float
    date: str | None = None
    method: str | None = None
    status: str | None = None
    notes: str | None = None


RECORDS: Final[Records] = {
    "policies": InsurancePolicy,
    "claims": Claim,
    "adjuster_notes": AdjusterNote,
    "fraud_investigation_flags": FraudFlag,
    "payouts": Payout,
}


def add_adjuster_note(
    world: JsonObject,
    claim_id: JsonValue,
    adjuster_id: JsonValue,
    note_text: JsonValue,
) -> Change:
    """Add an adjuster's note to a claim."""
    members = record(
        claim_id=claim_id,
        adjuster_id=adjuster_id,
        note_text=note_text,
        timestamp="created",
    )
    return create(world, "adjuster_notes", ("note_id", "AN-"), members)


def get_adjuster_notes_for_claim(world: JsonObject, claim_id: JsonValue) -> Change:
    """Read the adjusters' notes on a claim."""
    rows = walk(table(world, "adjuster_notes"))
    return world, select(rows, equals("claim_id", claim_id))


def create_claim(
    world: JsonObject,
    policy_id: JsonValue,
    claim_number: JsonValue,
    date_of_loss: JsonValue,
    description: JsonValue,
    claim_type: JsonValue,
    amount_requested: JsonValue,
    adjuster_id: JsonValue,
) -> Change:
    """File a claim against a policy."""
    members = record(
        policy_id=policy_id,
        claim_number=claim_number,
        date_of_loss=date_of_loss,
        description=description,
        claim_type=claim_type,
        amount_requested=amount_requested,
        status="open",
        adjuster_id=adjuster_id,
    )
    return create(world, "claims", ("claim_id", "CL-"), members)


def get_claim_by_id(world: JsonObject, claim_id: JsonValue) -> Change:
    """Read a claim."""
    return world, look_up(table(world, "claims"), claim_id, "Claim")


def update_claim_description(
    world: JsonObject, claim_id: JsonValue, description: JsonValue
) -> Change:
    """Replace a claim's description."""
    where = ("claims", "Claim", claim_id)
    reply = f"Claim {text(claim_id)} description updated."
    return update(world, where, {"description": description}, reply)


def get_messages_for_claim(world: JsonObject, claim_id: JsonValue) -> Change:
    """Read the messages about a claim."""

    def concerns(message: JsonValue) -> bool:
        names = "related_claim_id", "claim_id"
        return any(field(message, name) == claim_id for name in names)

    return world, select(entries(world.get("messages", EMPTY_ARRAY)), concerns)


def flag_fraud_investigation(
    world: JsonObject,
    claim_id: JsonValue,
    investigator_id: JsonValue,
    flag_reason: JsonValue,
    severity: JsonValue,
) -> Change:
    """Flag a claim for a fraud investigation."""
    members = record(
        claim_id=claim_id,
        investigator_id=investigator_id,
        flag_reason=flag_reason,
        severity=severity,
        status="open",
    )
    return create(world, "fraud_investigation_flags", ("flag_id", "FF-"), members)


def process_payout(
    world: JsonObject,
    claim_id: JsonValue,
    amount: JsonValue,
    date: JsonValue,
    method: JsonValue,
    notes: JsonValue,
) -> Change:
    """Pay a claim out."""
    members = record(
        claim_id=claim_id,
        amount=amount,
        date=date,
        method=method,
        status="processed",
        notes=notes,
    )
    return create(world, "payouts", ("payout_id", "PO-"), members)


def get_policy_by_id(world: JsonObject, policy_id: JsonValue) -> Change:
    """Read a policy."""
    return world, look_up(table(world, "policies"), policy_id, "Policy")


def search_policies_by_holder(
    world: JsonObject, policyholder_name: JsonValue
) -> Change:
    """Search policies by the holder's name."""
    needle, name = lower(policyholder_name), "policyholder_name"
    holds = search(needle)
    rows = walk(table(world, "policies"))
    return world, select(rows, lambda row: holds(lower(field(row, name, "")), needle))


def update_policy_notes(
    world: JsonObject, policy_id: JsonValue, notes: JsonValue
) -> Change:
    """Replace a policy's notes."""
    where = ("policies", "Policy", policy_id)
    reply = f"Policy {text(policy_id)} notes updated."
    return update(world, where, {"notes": notes}, reply)


INSURANCE: Final = (
    tool(add_adjuster_note, "insurance", writes=["adjuster_notes"]),
    tool(get_adjuster_notes_for_claim, "insurance", reads=["adjuster_notes"]),
    tool(create_claim, "insurance", writes=["claims"]),
    tool(get_claim_by_id, "insurance", reads=["claims"]),
    tool(update_claim_description, "insurance", writes=["claims"]),
    tool(get_messages_for_claim, "insurance", reads=["messages"]),
    tool(flag_fraud_investigation, "insurance", writes=["fraud_investigation_flags"]),
    tool(process_payout, "insurance", writes=["payouts"]),
    tool(get_policy_by_id, "insurance", reads=["policies"]),
    tool(search_policies_by_holder, "insurance", reads=["policies"]),
    tool(update_policy_notes, "insurance", writes=["policies"]),
)
