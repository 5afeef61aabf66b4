"""Starts runs and drives them to their end."""
