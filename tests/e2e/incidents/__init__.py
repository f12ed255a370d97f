"""Incidents: what goes wrong in real clusters, and what the console must say of it, second by second."""
