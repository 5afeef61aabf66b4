"""Which call of a plan runs when, and when its result is stored."""
