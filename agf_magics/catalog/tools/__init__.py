"""Tools: Python functions that a flow calls by name."""
