"""The life of a run: its definition, start, journal, resume, comparison and planning."""
