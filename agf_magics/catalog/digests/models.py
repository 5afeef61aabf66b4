"""Which attributes of a pydantic model count in a digest: not those that pydantic generates.

A model's validator and serializer are objects in Rust, which have no digest. pydantic generates them
from the bases, the fields, the decorated functions and the configuration, all of which count, and
from its own code, whose version counts. pydantic is not imported here: whoever made the model has
imported it.
"""

from __future__ import annotations

from .digest import Digest, NoDigest

_DECORATORS = "__pydantic_decorators__"

_GENERATED = frozenset(
    {
        *("__pydantic_core_schema__", "__pydantic_validator__", "__pydantic_serializer__"),
        *("__signature__", "__pydantic_parent_namespace__", "__pydantic_setattr_handlers__"),
        _DECORATORS,
    }
)


def is_generated(kind: type, name: str) -> bool:
    """Whether pydantic generates the attribute ``name`` of the class ``kind``."""
    return name in _GENERATED and _DECORATORS in vars(kind)


def add_decorators(kind: type, digest: Digest) -> None:
    """Add what the decorators of a model say; the decorated functions are attributes of the model.
    Raises NoDigest if the model is not complete: its annotations name what does not exist yet."""
    decorators = vars(kind).get(_DECORATORS)
    if decorators is None:
        return
    if not vars(kind).get("__pydantic_complete__"):
        raise NoDigest("a model whose annotations have no meaning yet")
    for group in type(decorators).__dataclass_fields__:
        digest.add("decorators", group)
        for name, decorator in getattr(decorators, group).items():
            digest.add_all(name, (decorator.cls_var_name, decorator.info))
