"""One kernel alone, measured from the keyboard on this machine's GPU, as ``fx-explorer kernel X NAME --bench`` does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from textual import work

from fx_explorer import model
from fx_explorer.errors import FxExplorerError
from fx_explorer.session import SessionReader
from fx_explorer.tui.configurations import ConfigurationsApp

Told = Callable[[str], object]
MeasureKernel = Callable[[Path, int, Told, str], Awaitable[model.KernelTime]]
"""Path of the session, kernel, who hears what is being done, interpreter."""

READ_S = 20


async def really_measure(session: Path, kernel: int, tell: Told, python: str) -> model.KernelTime:
    from fx_explorer.client.kernel_bench import measure_kernel  # not needed for the first paint

    return await measure_kernel(session, kernel, tell, python)


class BenchingApp(ConfigurationsApp):
    """Measures the kernel that the cursor is on; the inspector has what came of it, also the next time."""

    measure_kernel: MeasureKernel = staticmethod(really_measure)
    _is_benching = False

    @work(name="bench", group="bench", exclusive=True, description="measure a kernel alone on the GPU")
    async def action_bench(self) -> None:
        kernel = self.explorer.kernel_here()
        if kernel is None:
            return
        from fx_explorer.client.trust import MEASURES  # not needed for the first paint

        self._is_benching = True
        try:
            reader = await self._writable(MEASURES)
            self.notify(f"Measuring {kernel.name} alone on this machine's GPU … esc stops it.")
            await self.measure_kernel(reader.path, kernel.id, self.explorer.show_progress, self.trial_worker[0])
        except FxExplorerError as error:
            self.notify(str(error), title="not measured", severity="warning", timeout=READ_S)
        else:
            self.notify(_told(reader, kernel), title=kernel.name, timeout=READ_S)
            self.explorer.show_inspector()
        finally:
            self._is_benching = False
            self.explorer.show_progress("")

    def stop_building(self) -> bool:
        has_stopped = super().stop_building()
        if not self._is_benching:
            return has_stopped
        self.workers.cancel_group(self, "bench")
        self.notify("Stopped: the kernel was not measured.")
        return True


def _told(reader: SessionReader, kernel: model.Kernel) -> str:
    from fx_explorer.analysis.below.card import measured_card
    from fx_explorer.analysis.below.kernel_speed import kernel_speed, speed_in_words

    speed = kernel_speed(reader, kernel)
    return "\n".join(speed_in_words(speed, measured_card(reader, speed.time.device))) if speed else ""
