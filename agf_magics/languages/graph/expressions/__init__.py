"""The expressions of graphs: templates, values, conditions."""
