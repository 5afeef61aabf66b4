"""The magics: one file for each group, or for what one magic does."""
