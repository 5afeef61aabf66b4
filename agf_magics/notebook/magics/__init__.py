"""The magics."""
