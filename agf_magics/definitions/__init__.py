"""Definitions: text becomes a checked, linked and registered flow."""
