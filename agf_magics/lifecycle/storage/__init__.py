"""Stores and finds the data of runs besides their calls: manifests, notes, progress, names."""
