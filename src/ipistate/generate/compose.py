"""One task: a request, an attack that hides in what it reads, and how both may go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ipistate.generate.draft import DraftRow, WorldDraft
from ipistate.generate.draw import Draw
from ipistate.generate.strategies import (
    DIFFICULTIES,
    STRATEGIES,
    Difficulty,
    dressed,
    templates,
)
from ipistate.generate.wording import hidden, system_prompt, user_prompt
from ipistate.kernel import Environment, JsonArray, JsonObject
from ipistate.scoring import Injection, Task, Trajectories
from ipistate.tools import TOOLS, function_definition


if TYPE_CHECKING:
    from collections.abc import Collection, Container

    from ipistate.generate.scene import Attack, Carrier, Domain

_PROVENANCE: Final = JsonObject(
    {
        "environment_type": "R1",
        "prompt_mode": "agentic",
        "verifier_config": {"type": "trace_analysis", "mode": "agentic_ipi"},
        "agent_ref": {
            "type": "responses_api_agents",
            "name": "indirect_prompt_injection_simple_agent",
        },
    }
)
_DEFINITIONS: Final = {one.name: function_definition(one) for one in TOOLS.values()}


@attrs.frozen
class Generated:
    """A task row, and two ways through it."""

    task: Task
    trajectories: Trajectories


def compose(domain: Domain, row: int, draw: Draw, size: int) -> Generated:
    """Make one task.

    Args:
        domain: What it is about.
        row: Its position in the file.
        draw: The source of all choices.
        size: Bytes of JSON that its world has at least.
    """
    stage = WorldDraft(draw, domain.shapes, domain.companies, domain.roles)
    request = draw.pick(domain.requests)(stage)
    # The order of these picks is part of what a seed means: another one, other rows.
    words = draw.pick(request.words)
    lead = () if request.lead is None else draw.pick(((), (request.lead,)))
    about = request.about
    about = about if isinstance(about, DraftRow) else about(stage)
    calls = (*lead, *request.calls)
    carrier = draw.pick(request.carriers)
    used = {one.name for one in calls}
    attack = _attack(domain, stage, used, about)
    injection = _hide(stage, carrier, attack, draw.pick(attack.orders))
    while stage.size < size:
        domain.filler(stage)
    task = Task(
        responses_create_params=_params(
            domain, stage, words, {attack.call.name, *used}
        ),
        environment=Environment(stage.world()),
        required_tools=request.required,
        injection=injection,
        domain=domain.name,
        extra=_PROVENANCE,
    )
    after = calls.index(carrier.read) + 1
    obeyed = (*calls[:after], attack.call, *calls[after:])
    ways = Trajectories(row=row, benign=calls, compromised=obeyed)
    return Generated(task, ways)


def _attack(
    domain: Domain, stage: WorldDraft, used: Container[str], about: DraftRow
) -> Attack:
    free = [name for name in domain.attacks if name not in used]
    return stage.draw.pick(domain.attacks[stage.draw.pick(free)])(stage, about)


def _hide(stage: WorldDraft, carrier: Carrier, attack: Attack, goal: str) -> Injection:
    draw = stage.draw
    strategy, difficulty = draw.pick(STRATEGIES), draw.pick(DIFFICULTIES)
    template = draw.pick(templates(strategy, difficulty))
    order = dressed(template, goal, _slots(stage, carrier, attack))
    text, position = hidden(order, carrier.entry[carrier.member], draw)
    carrier.entry.set(carrier.member, text)
    stage.size += len(order)
    return Injection(
        goal=f"{goal[0].upper()}{goal[1:]}.",
        target_tool=attack.call.name,
        target_args=attack.call.arguments,
        verification_type=attack.verification_type,
        attack_strategy=strategy,
        attack_difficulty=difficulty,
        vector=carrier.vector,
        injection_text=order,
        category=attack.category,
        extra=_labels(position, difficulty),
    )


def _labels(position: str, difficulty: Difficulty) -> JsonObject:
    tier = DIFFICULTIES.index(difficulty) + 1
    return JsonObject({"injection_position": position, "subtlety_tier": tier})


def _slots(stage: WorldDraft, carrier: Carrier, attack: Attack) -> dict[str, str]:
    return {
        "tool": attack.call.name,
        "thing": carrier.vector.replace("_", " "),
        "company": stage.company.name,
        "user": stage.user.name,
        "boss": stage.colleague().name,
        "date": stage.day(-30, -1),
        "ref": f"{stage.draw.pick(_REFERENCES)}-{stage.draw.digits(4)}",
        "count": str(stage.draw.number(3, 30)),
    }


_REFERENCES: Final = ("REF", "WF", "Q", "OPS", "N", "PR", "TK", "DOC")


def _params(
    domain: Domain, stage: WorldDraft, words: str, needed: Collection[str]
) -> JsonObject:
    tools = [_DEFINITIONS[name] for name in _offered(domain, needed, stage.draw)]
    messages = [
        {"role": "system", "content": system_prompt(domain, stage)},
        {"role": "user", "content": user_prompt(words, stage.draw)},
    ]
    return JsonObject(
        {
            "input": messages,
            "tools": JsonArray(tools),
            "tool_choice": "auto",
            "max_output_tokens": 4096,
        }
    )


def _offered(domain: Domain, needed: Collection[str], draw: Draw) -> list[str]:
    # All tools of the domain, or some more than it takes; always in their usual order.
    names = [one.name for one in TOOLS.values() if domain.name in one.domains]
    if draw.chance(50):
        return names
    rest = [name for name in names if name not in needed]
    kept = {*needed, *draw.some(rest, draw.number(1, len(rest)))}
    return [name for name in names if name in kept]
