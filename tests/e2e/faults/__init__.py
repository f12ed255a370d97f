"""Faults of real agents, shims and tasks: what is done, what must follow, and what follows."""
