"""Pictures and pages of flows and runs: graphviz, SVG, HTML, text."""
