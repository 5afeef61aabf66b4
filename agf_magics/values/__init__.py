"""What a value is: JSON, opaque values, sequences, large values, tables."""
