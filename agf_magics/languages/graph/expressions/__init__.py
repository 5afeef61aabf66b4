"""The expressions of graphs: values, templates and conditions."""
