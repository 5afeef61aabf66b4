"""Prompts of graphs: files, slots, Jinja templates, answer schemas."""
