"""Makes the calls of steps: arguments, permission, the call itself, the result."""
