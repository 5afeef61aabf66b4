"""What a run may use: limits, budgets and grants. A person sets them; a definition cannot widen them."""
