"""``Stages``: torch.compile stage by stage from Python, with what the app shows as the answers.

``Precompile`` (precompile/) is the other way to take the stages apart: it hands over functions that
run, of a model that is one graph. ``Stages`` is for looking, changing and comparing, and takes any
model.
"""

from fx_explorer.stages.api import StageError, Stages
from fx_explorer.stages.views import Shown, StageView

__all__ = ["Shown", "StageError", "StageView", "Stages"]
