"""Text and places in it: sources, spans, diagnostics, YAML."""
