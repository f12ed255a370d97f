"""Widgets of a run's begin and of its end."""
