"""A text that is the name of a file is no path of a value: ``totals.json`` beside a store ``totals``."""

from __future__ import annotations

import re
from typing import Final

FILE: Final = re.compile(
    r"[\w./ -]{1,500}\.(?i:png|jpe?g|gif|webp|svg|pdf|txt|md|rst|html?|xml|csv|tsv|xlsx?|parquet|jsonl?"
    r"|ya?ml|toml|ini|log|db|sqlite|zip|gz|py|ipynb|docx?|pptx?|mp3|mp4|wav)"
)
"""The pattern of such a text: one with an ending of files."""
