"""Planners: a model or function writes plan after plan on one context."""
