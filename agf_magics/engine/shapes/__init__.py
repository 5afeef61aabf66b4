"""How each shape runs: in order, by dependency, along edges, in parallel."""
