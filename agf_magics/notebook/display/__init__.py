"""What a cell shows: a run until its end, lists, contexts, errors."""
