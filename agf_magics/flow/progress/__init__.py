"""The events of a run, and the state that is their sum."""
