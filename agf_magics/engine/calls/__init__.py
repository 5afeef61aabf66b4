"""The one way of a call, for each kind of callee."""
