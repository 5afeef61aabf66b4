"""What an editor asks about a text: problems, completion, help, symbols, repairs; and the language server.

The kernel and the language server give the same answers, because both ask here. Nothing here imports
IPython, and nothing of a text is run: a tool of a Python file is known by a scan of its text.
"""
