"""Past runs: found, shared, compared, resumed, repeated."""
