"""Text and files become registered flows."""
