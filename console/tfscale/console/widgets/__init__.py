"""What is drawn. Widgets see a `Snapshot` and nothing else."""
