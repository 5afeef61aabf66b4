"""Secrets are found and masked before anything is stored or shown."""
