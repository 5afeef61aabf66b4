"""The prompts of graphs: files, slots, Jinja templates, answer schemas."""
