"""What differs between Pythons and systems: a page without threads, late imports, memory."""
