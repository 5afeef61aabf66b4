"""Named contexts of plans, and planners that extend a context plan by plan."""

from ..languages.plan import Message, branch
from .contexts import NamedContext, context
from .planner import run_planner
from .ticks import PlannerResult

__all__ = ["Message", "NamedContext", "PlannerResult", "branch", "context", "run_planner"]
