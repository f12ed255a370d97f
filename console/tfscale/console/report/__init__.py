"""The report of a recorded or measured run, found by the rules that watch live; as text, JSON or a page."""
