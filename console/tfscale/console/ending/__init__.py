"""End of a run: what is said of it when it is over."""
