"""The life of a run: defined, started, saved, resumed, compared, planned."""
