"""How `phases.py` is cut into blocks; what runs it reads its steps by the same numbers."""

DELAY = 0.020
"""Seconds, in one phase at a time."""
PHASES = ("none", "input", "host", "compute", "update", "wire", "none")
WARM_UP, GAP, BLOCK = 24, 16, 48
"""Steps before the first block, before each, and in each."""
STEPS = WARM_UP + len(PHASES) * (GAP + BLOCK)
