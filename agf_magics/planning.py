"""Named contexts of plans, and planners that extend a context plan by plan."""

from .languages.plan import Message, branch
from .lifecycle.planning.contexts import NamedContext, context
from .lifecycle.planning.planner import run_planner
from .lifecycle.planning.ticks import PlannerResult

__all__ = ["Message", "NamedContext", "PlannerResult", "branch", "context", "run_planner"]
