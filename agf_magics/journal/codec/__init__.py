"""Converts values to bytes and texts, and back."""
