"""Finds, shares, compares, resumes and repeats past runs."""
