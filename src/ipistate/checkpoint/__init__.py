"""Checkpoints: the state's wire form, its records, a pure control machine, files."""
