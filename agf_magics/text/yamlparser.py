"""The C parser of YAML and the kinds of its events: the only module that knows yaml."""

from __future__ import annotations

import yaml

try:
    from yaml.cyaml import CParser as Parser  # type: ignore[attr-defined]
except ImportError:  # no C extension here: the same events, ten times slower

    class Parser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)


Kinds = tuple[type, type, type, type, type, type, type, type]

EVENTS: Kinds = (
    yaml.ScalarEvent,
    yaml.SequenceStartEvent,
    yaml.SequenceEndEvent,
    yaml.MappingStartEvent,
    yaml.MappingEndEvent,
    yaml.AliasEvent,
    yaml.DocumentEndEvent,
    yaml.StreamEndEvent,
)

Misplaced = yaml.MarkedYAMLError
"""A syntax error with its place."""
Wrong = yaml.YAMLError

__all__ = ["EVENTS", "Kinds", "Misplaced", "Parser", "Wrong"]
