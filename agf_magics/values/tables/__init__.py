"""Tables as sequences of rows: lists, data frames, files."""
