"""This package has ``Stages``, which runs torch.compile stage by stage from Python, with the app's
content as results.

``Precompile`` (precompile/) is the other way to take the stages apart: it hands over functions that
run, of a model that is one graph. ``Stages`` is for looking, changing and comparing, and takes any
model: it calls it as the user does, through its graph breaks, its recompiles and its backward.

Both share the recorder, its boundary and the gates, and neither stands on the other.
"""

from fx_explorer.stages.api import StageError, Stages
from fx_explorer.stages.stage_views import Shown, StageView

__all__ = ["Shown", "StageError", "StageView", "Stages"]
