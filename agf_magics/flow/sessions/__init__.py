"""A session with a model as steps."""
