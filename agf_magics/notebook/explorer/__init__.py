"""The explorer of a run in the page, and the requests that it answers."""
