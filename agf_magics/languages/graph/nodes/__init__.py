"""The steps of each kind of node."""
