"""Other inputs for the target that was called: made and prepared as ``--inputs`` would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from fx_explorer.model import CaptureRequest
from fx_explorer.worker.calling import prepared
from fx_explorer.worker.inputs import as_arguments
from fx_explorer.worker.place import Place
from fx_explorer.worker.target import Offer, Target


@dataclass(frozen=True)
class CalledTarget:
    """What ``capture/live_guards.py`` asks for (Program)."""

    target: Target
    place: Place
    request: CaptureRequest

    @property
    def callable(self) -> Callable[..., Any]:
        return self.target.callable

    def inputs(self, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Raises TargetError when it is no expression or names what is not there, and whatever it raises."""
        offer = Offer(str(self.target.scope.get("__name__", "")), dict(self.target.scope), self.place, self.request, _silent)
        arguments = as_arguments(offer.evaluate(expression, "the inputs"), "the inputs")
        ready, _ = prepared(replace(self.target, arguments=arguments), self.request)
        return ready.arguments.args, ready.arguments.keywords


def _silent(activity: str) -> None:
    """What the worker is doing is told by whoever asks."""
