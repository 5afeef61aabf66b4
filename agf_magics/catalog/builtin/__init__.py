"""The tools that are there from the start: files, shell, SQL."""
