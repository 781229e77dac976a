"""Effects: what an injection really did, beside the verdict that the trace gives."""

from ipistate.scoring.effects.report import Effects, Expectation, WorldChange, assess
from ipistate.scoring.effects.requirements import Requirement


__all__ = ["Effects", "Expectation", "Requirement", "WorldChange", "assess"]
