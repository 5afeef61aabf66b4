"""The values of flows: JSON, opaque values, sequences, large values, tables."""
