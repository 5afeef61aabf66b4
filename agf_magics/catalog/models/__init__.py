"""Asks language models: requests, replies, errors and prices."""
