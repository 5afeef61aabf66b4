"""Models: requests, replies, their errors and prices."""
