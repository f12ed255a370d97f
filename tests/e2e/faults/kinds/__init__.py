"""Declarations of faults by kind."""
