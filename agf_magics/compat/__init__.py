"""The differences between Pythons and systems: a browser without threads, late imports, memory."""
