"""The formats of a report: text, JSON, a page."""
