"""Other processes, here or elsewhere, that make the concurrent calls of a run."""
