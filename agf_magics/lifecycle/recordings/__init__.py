"""Calls recorded in a file, and runs that replay them."""
