"""Workers: other processes, here or on other machines, that make the concurrent calls of a run."""
