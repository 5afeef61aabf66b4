"""Finds and masks secrets before anything is stored or shown."""
