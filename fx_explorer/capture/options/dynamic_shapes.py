"""Another ``dynamic`` argument of torch.compile, given while the program runs: it holds whenever
Dynamo captures a frame.

torch.compile sets two options for it as the compiled function is entered
(torch/_dynamo/eval_frame.py, ``make_set_enable_dynamic``), so what was set before would be lost.
Hook: ``convert_frame._compile``, which captures one frame.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import config, convert_frame

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.errors import UsageError
from fx_explorer.model import Changes, Gate

SETTING = "compile.dynamic"

THROUGH = (
    "Dynamo is through with these graphs, so their sizes stay as they are. To have other "
    "ones dynamic, capture again with "
    "--dynamic or --no-dynamic; with --step, this option can be changed while Dynamo has a graph."
)

_OPTIONS = ("assume_static_by_default", "automatic_dynamic_shapes")


class DynamicShapes:
    """Whether sizes become symbols in frames captured from now on."""

    def __init__(self) -> None:
        self._automatic: dict[str, bool] = {name: getattr(config, name) for name in _OPTIONS}
        """Without the argument: as the program has them."""
        self._wanted: dict[str, bool] = {}
        """The options that are wanted; empty for what the program asked torch.compile for."""
        self._frame = contextlib.ExitStack()
        """What puts the options back when the frame that is being captured is through."""

    def want(self, dynamic: object) -> None:
        """Set the argument for frames captured from now on."""
        values = {True: (False, self._automatic["automatic_dynamic_shapes"]), False: (True, False)}
        # None is wanted too: torch.compile may have been called with something else.
        if isinstance(dynamic, bool):
            self._wanted = dict(zip(_OPTIONS, values[dynamic], strict=True))
        else:
            self._wanted = self._automatic

    def hold(self) -> None:
        """Set what is wanted for the rest of a frame, which Dynamo begins or is going to begin
        again.
        """
        if self._wanted:
            self._frame.enter_context(config.patch(self._wanted))

    @contextlib.contextmanager
    def in_frames(self) -> Iterator[None]:
        """Let what is wanted hold in each frame that is captured inside the block, and no
        longer.
        """

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def _compile(*args: Any, **kwargs: Any) -> Any:
                with contextlib.ExitStack() as self._frame:
                    self.hold()
                    return original(*args, **kwargs)

            return _compile

        with patched(convert_frame, "_compile", make):
            yield


def check_anew(gate: Gate, changes: Changes) -> None:
    """Raise UsageError for what cannot be changed together with what is dynamic."""
    if gate != "dynamo":
        raise UsageError("What is dynamic, Dynamo decides: go again from dynamo to change it.")
    if changes.marks or changes.passes:
        raise UsageError(
            "Dynamo makes a new graph for other dynamic shapes: mark regions and apply "
            "passes there."
        )
