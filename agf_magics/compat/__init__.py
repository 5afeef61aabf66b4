"""What differs between Pythons: a page without threads, and imports that are made late."""
