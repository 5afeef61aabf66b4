"""How user code is called, awaited and stopped on threads."""
