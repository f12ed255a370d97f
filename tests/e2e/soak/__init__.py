"""Soak: agents and consoles that meet random faults, upgrades and orders for half an hour, and what is left then."""
