"""Planners, in which a model or a function writes plan after plan on one context."""
