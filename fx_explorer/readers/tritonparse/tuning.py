"""What an autotuner found: the time of each configuration, and which it took (events of kind ``autotune``)."""

from __future__ import annotations

from typing import Any

from fx_explorer.readers.torch_trace.compilations import Compilations
from fx_explorer.readers.tritonparse.events import Event, as_text, table
from fx_explorer.readers.tritonparse.kernels import Build, Kernels

MILLISECOND = 1e-3


class Tuning:
    """Notes the times while the log is read, and gives them to the configurations when it was."""

    def __init__(self, compilations: Compilations, kernels: Kernels) -> None:
        self._compilations = compilations
        self._kernels = kernels
        self._events: list[Event] = []

    def tuned(self, event: Event) -> None:
        self._events.append(event)

    def finish(self) -> None:
        for event in self._events:
            name = str(event.fields.get("kernel_name"))
            of_name = [
                function for function in self._kernels.functions if function.row.name == name
            ]
            builds = [build for function in of_name for build in function.builds]
            best = str(event.fields.get("best_config"))
            for config, timing in table(event.fields.get("configs_timings")).items():
                for build in builds:
                    if is_of(build, config):
                        self._kernels.change(
                            build,
                            timing_s=_seconds(timing),
                            is_picked=build.row.is_picked or config == best,
                        )
            if of_name:
                title = f"Autotuning · {name}"
                text = as_text(
                    {key: value for key, value in event.fields.items() if key != "stack"}
                )
                self._compilations.add_artifact(
                    of_name[0].record, "listing", "output_code", title, "json", text
                )
        self._events.clear()


def is_of(build: Build, config: str) -> bool:
    """Return whether a configuration was compiled from what Triton's autotuner prints as ``BLOCK_M: 16, num_warps: 4,
    num_ctas: 1, num_stages: 2, maxnreg: None``.
    """
    told = dict(part.split(": ", 1) for part in config.split(", ") if ": " in part)
    own = {"num_ctas": 1, **build.row.options}
    return "num_warps" in told and all(str(own.get(name)) == value for name, value in told.items())


def _seconds(timing: Any) -> float:
    """Return the median of what the autotuner measured: milliseconds, with the quantiles after it."""
    first = timing[0] if isinstance(timing, list) and timing else timing
    is_time = isinstance(first, int | float) and not isinstance(first, bool) and 0 < first < 1e9
    return first * MILLISECOND if is_time else 0.0
