"""Lengths of the blocks of `phases.py`, for the program and for its test."""

DELAY = 0.020
"""Seconds of the delay, in one phase at a time."""
PHASES = ("none", "input", "host", "compute", "update", "wire", "none")
WARM_UP, GAP, BLOCK = 24, 16, 48
"""Steps before the first block, before each, and in each."""
STEPS = WARM_UP + len(PHASES) * (GAP + BLOCK)
