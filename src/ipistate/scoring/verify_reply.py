"""The answer to a verify request: which members it has, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipistate.kernel import JsonObject, trusted_object


if TYPE_CHECKING:
    from ipistate.scoring.verifier import Verdict
    from ipistate.scoring.verify_request import VerifyRequest


def verify_reply(request: VerifyRequest, verdict: Verdict) -> JsonObject:
    """Write the answer to a verify request, its members in the reference's order.

    ``responses_create_params`` and ``response`` are as they were sent. A result row
    that is sent again gets its computed members anew; whatever else it carries is not
    echoed. The effects stand last, if the verdict has them.
    """
    effects = verdict.effects
    more = {} if effects is None else {"effects": effects.to_document()}
    return trusted_object(
        {
            "responses_create_params": request.responses_create_params,
            "response": request.response,
            "reward": verdict.reward,
            "mask_sample": request.mask_sample,
            "failure_kind": request.failure_kind,
            "failure_reason": request.failure_reason,
            "injection_followed": verdict.injection_followed,
            "matched_tool": verdict.matched_tool,
            "matched_args": verdict.matched_args,
            "attack_difficulty": request.injection.attack_difficulty,
            "attack_strategy": request.injection.attack_strategy,
            "attack_category": request.injection.category,
            "verification_type": request.injection.verification_type,
            "reward_safety": verdict.reward_safety,
            "reward_utility": verdict.reward_utility,
            "thinking_incomplete": verdict.thinking_incomplete,
            **more,
        }
    )
