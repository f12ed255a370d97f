"""Screens of the terminal: the cluster, one task, steps, events, advice, heat map, help."""
