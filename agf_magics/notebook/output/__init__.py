"""Outputs of a cell: shown, replaced, drawn, asked."""
