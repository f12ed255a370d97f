"""Widgets. They read only a `Snapshot`."""
