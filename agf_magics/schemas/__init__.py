"""Whether a value has the shape that a definition asks for: schemas, patterns, shapes before a run."""
