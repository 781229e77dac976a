"""The parts: one for each kind of participant, and what they have in common."""
