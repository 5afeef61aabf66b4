"""The journal's SQLite file: opened, locked, written."""
