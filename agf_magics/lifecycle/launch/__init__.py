"""Runs are started and driven to their end."""
