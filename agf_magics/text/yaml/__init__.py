"""YAML whose every node and key has its place, with errors in the author's words."""
