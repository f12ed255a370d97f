"""The post-mortem: what was recorded or measured, played through the rules that watch live, as text, JSON or a page."""
