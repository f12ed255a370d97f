"""Signals to programs, by themselves and under agents."""
