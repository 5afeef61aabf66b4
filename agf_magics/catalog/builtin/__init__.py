"""The built-in tools: files, shell, SQL."""
