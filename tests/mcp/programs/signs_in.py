"""A notebook that signs in: ``python signs_in.py ADDRESS CALLS``. It makes its calls after a line of stdin.

Its browser is the program in ``BROWSER``, which opens the page in its argument.
"""

from __future__ import annotations

import sys

import agf_magics as agf

address, calls = sys.argv[1:]
server = agf.mcp.connect("web", address, sign_in=True)
print("signed in", flush=True)
sys.stdin.readline()
text = "pipeline: main\nsteps:\n- tool: {name: web__who}\n"
print([agf.run(text).output for _ in range(int(calls))].count("you"), flush=True)
