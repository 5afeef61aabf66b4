"""Functions and data as bytes for a worker, and errors from there."""
