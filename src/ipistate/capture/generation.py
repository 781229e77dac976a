"""A generation as a value: what was asked, and the tokens so far.

What is staged of it is the same whether it has ended or was cut on its way, so a call
that is continued after a cut comes to the record that it would have come to.
"""

from __future__ import annotations

import attrs

from ipistate.capture.call_messages import CaptureAdmission
from ipistate.capture.digests import StagedCall, chain_hash, cumulative_hash
from ipistate.capture.generation_cut import CutContinuation
from ipistate.errors import SchemaError


CUT_PREFIX = "__generation_cut__"


@attrs.frozen(kw_only=True)
class Generation:
    """The tokens of a call that is captured."""

    admission: CaptureAdmission
    prompt: tuple[int, ...]
    """All tokens before the first one that is generated, those of its parents included."""
    generated: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    """Of the generated tokens."""
    output_limit: int
    """Tokens that may be generated in all, over all executions of the call."""
    weight_version: int
    """The oldest weights that have made a token of it."""

    @property
    def left(self) -> int:
        """How many tokens may still be generated."""
        return max(0, self.output_limit - len(self.generated))

    def extended(self, token: int, logprob: float) -> Generation:
        """Return the generation with one more token."""
        return attrs.evolve(
            self,
            generated=(*self.generated, token),
            logprobs=(*self.logprobs, logprob),
        )

    @property
    def staging_key(self) -> str:
        """The key of the whole call."""
        told = self.admission
        return f"{told.rollout_id}/{told.model_call_id}"

    @property
    def cut_key(self) -> str:
        """The key of its cut here, which never stands for the call."""
        return f"{CUT_PREFIX}/{self.staging_key}/{len(self.generated)}"

    def staged(self) -> StagedCall:
        """Return the record of the tokens so far.

        Raises:
            SchemaError: ``foreign_prefix``: the prompt is shorter than what comes before.
        """
        told = self.admission
        asked = self.prompt[told.prev_len :]
        if len(self.prompt) < told.prev_len:
            message = f"the prompt has fewer than the {told.prev_len} tokens before it"
            raise SchemaError("foreign_prefix", message)
        delta, parent = (*asked, *self.generated), told.parent_chain_hash
        before = None if parent is None else bytes.fromhex(parent)
        return StagedCall(
            rollout_id=told.rollout_id,
            model_call_id=told.model_call_id,
            parent_call_id=told.parent_call_id,
            mode=told.mode,
            prev_len=told.prev_len,
            tokens=delta,
            mask=(0.0,) * len(asked) + (1.0,) * len(self.generated),
            logprobs=(0.0,) * len(asked) + self.logprobs,
            weight_version=self.weight_version,
            chain_hash=chain_hash(before, delta),
            cumulative_hash=cumulative_hash((*self.prompt, *self.generated)),
        )

    def cut(self, finish_reason: str | None = None) -> CutContinuation:
        """Say how the call is continued, once the record is staged under ``cut_key``."""
        return CutContinuation(
            source_capture_key=self.admission.rollout_id,
            source_model_call_id=self.admission.model_call_id,
            staging_keys=(self.cut_key,),
            prefix_token_count=len(self.generated),
            prefix_digest=self.staged().digest().hex(),
            effective_output_limit=self.output_limit,
            terminal_finish_reason=finish_reason,
        )


def continued(
    admission: CaptureAdmission,
    prefix: tuple[int, ...],
    snapshot: StagedCall,
    weight_version: int,
) -> Generation:
    """Go on after a cut, with the tokens that are staged.

    Args:
        admission: Of the call that is made again, with its ``generation_cut``.
        prefix: The tokens of its parents.
        snapshot: What is staged under the cut's key.
        weight_version: Of the worker that goes on.

    Raises:
        SchemaError: ``foreign_cut``: the snapshot is not that of the cut, or the cut not
            one of this call; ``newer_weights``: it was made by weights that this worker
            does not have yet.
    """
    cut = admission.generation_cut
    if cut is None:
        raise SchemaError("foreign_cut", "the call was not cut")
    problem = _problem(admission, cut, snapshot)
    if problem is not None:
        raise SchemaError("foreign_cut", problem)
    if snapshot.weight_version > weight_version:
        message = f"its tokens are of weights {snapshot.weight_version}"
        raise SchemaError("newer_weights", message)
    first = len(snapshot.tokens) - cut.prefix_token_count
    return Generation(
        admission=admission,
        prompt=(*prefix, *snapshot.tokens[:first]),
        generated=snapshot.tokens[first:],
        logprobs=snapshot.logprobs[first:],
        output_limit=cut.effective_output_limit,
        weight_version=snapshot.weight_version,
    )


def _problem(
    admission: CaptureAdmission, cut: CutContinuation, snapshot: StagedCall
) -> str | None:
    checks = {
        "another rollout's tokens": snapshot.rollout_id == cut.source_capture_key,
        "another call's tokens": snapshot.model_call_id == cut.source_model_call_id,
        "other tokens than were cut": snapshot.digest().hex() == cut.prefix_digest,
        "tokens after another parent": snapshot.parent_call_id
        == admission.parent_call_id,
        "tokens after another prefix": snapshot.prev_len == admission.prev_len,
        "tokens of another mode": snapshot.mode == admission.mode,
        "another number of generated tokens": sum(snapshot.mask)
        == cut.prefix_token_count,
    }
    return next((what for what, holds in checks.items() if not holds), None)
