"""Looks up the names of a flow in the registry and checks them, before the first step."""
