"""The C parser of YAML and the kinds of its events. Only this module imports yaml."""

from __future__ import annotations

import yaml
from yaml import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

__all__ = [
    "AliasEvent",
    "MappingEndEvent",
    "MappingStartEvent",
    "Misplaced",
    "Parser",
    "ScalarEvent",
    "SequenceEndEvent",
    "SequenceStartEvent",
    "StreamEndEvent",
    "Wrong",
]

try:
    from yaml.cyaml import CParser as Parser  # type: ignore[attr-defined]
except ImportError:  # without the C extension: the same events, ten times slower

    class Parser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)


Misplaced = yaml.MarkedYAMLError
"""A syntax error with its place."""
Wrong = yaml.YAMLError
