"""What is noted of a kernel on a real GPU: how it was built, timed and launched
(kernel_launches.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fx_explorer.model import Argument, BuildOrigin

Options = tuple[tuple[str, object], ...]


@dataclass
class NotedBuild:
    """A configuration as it was loaded onto the GPU."""

    options: dict[str, object]
    origin: BuildOrigin
    registers: int
    local_bytes: int
    shared_bytes: int
    folder: Path | None
    """The build's directory in Triton's cache; None when it was not built."""
    timing_s: float = 0.0


@dataclass
class NotedLaunch:
    count: int = 1
    grid: tuple[int, ...] = ()
    arguments: tuple[Argument, ...] = ()


@dataclass
class NotedKernel:
    """What one autotuner did. It keeps the autotuner alive, as the module that torch loaded it from
    does anyway.
    """

    autotuner: Any
    source: str
    """Text of the file it was loaded from; of a template, that torch tells no file of, the text of
    the function.
    """
    compilation: str
    is_backward: bool
    picked: Options = ()
    builds: dict[Options, NotedBuild] = field(default_factory=dict)
    launches: dict[tuple[int, ...], NotedLaunch] = field(default_factory=dict)

    @property
    def device(self) -> int:
        return int(self.autotuner.triton_meta.get("device") or 0)
