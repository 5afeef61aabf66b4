"""The command line: what each command does, and what it prints."""
