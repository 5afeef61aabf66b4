"""The client: servers that a person connects, and their tools on the registry."""
