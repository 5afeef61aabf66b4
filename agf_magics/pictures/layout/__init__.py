"""Positions by graphviz, and the SVG."""
