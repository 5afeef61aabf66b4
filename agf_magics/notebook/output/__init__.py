"""The outputs of a cell, and the messages of its views: shown, replaced, drawn, received."""
