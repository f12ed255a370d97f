"""Widgets. They see a `Snapshot` and nothing else."""
