"""Answers what an editor asks about a text: problems, completion, help, symbols, repairs.

The kernel and the language server give the same answers, because both use this room. It does not
import IPython, and it runs nothing of a text: the tools of a Python file are found by a scan of its
text.
"""
