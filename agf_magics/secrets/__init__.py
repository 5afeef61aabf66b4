"""Secrets: the values of secret arguments are searched for before anything is stored or shown."""
