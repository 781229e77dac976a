"""Effects: what an injection really did, beside the verdict that the trace gives."""

from ipistate.effects.report import Effects, Expectation, WorldChange, assess
from ipistate.effects.requirements import Requirement


__all__ = ["Effects", "Expectation", "Requirement", "WorldChange", "assess"]
