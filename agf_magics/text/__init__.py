"""Places in text: sources, spans, diagnostics, tokens, YAML whose every node knows where it stands. Knows nothing of
flows.
"""
