"""A browser that opens one page, and records that in a file: ``python browser.py FILE ADDRESS``."""

from __future__ import annotations

import sys
import urllib.request

with open(sys.argv[1], "a", encoding="utf-8") as file:
    file.write(sys.argv[2] + "\n")
urllib.request.urlopen(sys.argv[2]).read()
