"""Incidents by kind; each module has its own as `INCIDENTS`."""
