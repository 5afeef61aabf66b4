"""Tools, the functions that a flow calls by name: their arguments, checks and retries."""
