"""Contexts of plans, and planners that extend them call by call."""
