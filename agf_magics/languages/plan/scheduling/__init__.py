"""Schedules the calls of a plan, and the order in which their results are stored."""
