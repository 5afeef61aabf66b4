"""Named contexts of plans, and planners that extend a context plan by plan."""

from ..languages.plan import Message, branch
from .context import NamedContext, context
from .planner import run_planner

__all__ = ["Message", "NamedContext", "branch", "context", "run_planner"]
