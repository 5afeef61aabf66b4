"""Opens, locks and writes the journal's SQLite file."""
