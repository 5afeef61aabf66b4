"""YAML whose every node and key has its place (API; being written)."""
