"""Expresses a session with a model as steps of a flow."""
