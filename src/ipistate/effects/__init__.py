"""Effects: what an injection really did, beside the verdict that the trace gives."""

from ipistate.effects.report import Change, Effects, Expectation, assess
from ipistate.effects.requirements import Requirement


__all__ = ["Change", "Effects", "Expectation", "Requirement", "assess"]
