"""Calls, awaits and stops user code on threads."""
