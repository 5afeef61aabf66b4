"""The lines of magics and of the command line: words, options, values."""
