"""What the text of a flow alone shows: which step reads what, and what is wrong."""
