"""Text and places in it: sources, spans, diagnostics, and YAML whose every node has its place.
Independent of flows."""
