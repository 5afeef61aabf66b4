"""Reads YAML into nodes and keys with their places, and reports errors in the author's words."""
