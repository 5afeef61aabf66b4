"""Builds the steps of each kind of node."""
