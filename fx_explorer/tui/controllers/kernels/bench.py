"""One kernel alone, measured from the keyboard on this machine's GPU, as
``fx-explorer kernel X NAME --bench`` does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from fx_explorer import model
from fx_explorer.errors import FxExplorerError
from fx_explorer.session import SessionReader
from fx_explorer.tui.controllers.kernels.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.looking.kernel_here import kernel_here
from fx_explorer.tui.controllers.services import Services

Told = Callable[[str], object]
MeasureKernel = Callable[[Path, int, Told, str], Awaitable[model.KernelTime]]
"""Path of the session, kernel, who hears what is being done, interpreter."""

READ_S = 20

GROUP = "bench"
"""Group of workers: one kernel is measured at a time."""


async def really_measure(session: Path, kernel: int, tell: Told, python: str) -> model.KernelTime:
    from fx_explorer.instruments.kernels.kernel_bench import (
        measure_kernel,  # not needed for the first paint
    )

    return await measure_kernel(session, kernel, tell, python)


class KernelBench:
    """Measures the kernel that the cursor is on; the inspector has the result, also the next
    time.
    """

    measure_kernel: MeasureKernel = staticmethod(really_measure)

    def __init__(self, services: Services, builds: KernelBuilds) -> None:
        self._services = services
        self._builds = builds
        self._is_benching = False

    def measure(self) -> None:
        kernel = kernel_here(self._services.explorer)
        if kernel is not None:
            work = partial(self._bench, kernel)
            described = "measure a kernel alone on the GPU"
            self._services.begin(work, "bench", GROUP, described, exclusive=True)

    async def _bench(self, kernel: model.Kernel) -> None:
        """Measure a kernel alone on this machine's GPU, and show the result or why there is
        none.
        """
        from fx_explorer.client.trust import MEASURES  # not needed for the first paint

        self._is_benching = True
        try:
            reader = await self._builds.writable(MEASURES)
            self._services.notify(
                f"Measuring {kernel.name} alone on this machine's GPU … esc stops it."
            )
            await self.measure_kernel(
                reader.path,
                kernel.id,
                self._services.explorer.show_progress,
                self._services.trial_worker.python,
            )
        except FxExplorerError as error:
            self._services.notify(
                str(error), title="not measured", severity="warning", timeout=READ_S
            )
        else:
            self._services.notify(_told(reader, kernel), title=kernel.name, timeout=READ_S)
            self._services.explorer.show_inspector()
        finally:
            self._is_benching = False
            self._services.explorer.show_progress("")

    def stop(self) -> bool:
        """Stop on Escape. Returns whether there was something to stop."""
        if not self._is_benching:
            return False
        app = self._services.app
        app.workers.cancel_group(app, GROUP)
        self._services.notify("Stopped: the kernel was not measured.")
        return True


def _told(reader: SessionReader, kernel: model.Kernel) -> str:
    from fx_explorer.instruments.kernels.card import measured_card
    from fx_explorer.instruments.kernels.kernel_speed import kernel_speed, speed_in_words

    speed = kernel_speed(reader, kernel)
    if speed:
        return "\n".join(speed_in_words(speed, measured_card(reader, speed.time.device)))
    return ""
