"""What a run reports: its events, and the tree of progress that is folded from them."""
