"""Whether kernels are marked in the panes, and what the lines of the source cost, for all panes alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fx_explorer.analysis.heat.line_heat import NO_HEAT, LineHeat, Measure, SourceHeat
from fx_explorer.analysis.words import counted
from fx_explorer.tui.kernel_marks.source_gutter import percent
from fx_explorer.tui.tasks.beside import Beside, Renewed

if TYPE_CHECKING:
    from textual.widget import Widget

    from fx_explorer.analysis.documents import Document, Place
    from fx_explorer.session import SessionReader


LEGENDS: Mapping[Measure, str] = {
    "profiled time": "% profiled",
    "measured time": "% of time",
    "estimated time": "≈% of time",
    "time, partly measured": "≈% of time",
    "bytes moved": "% of bytes",
    "": "× kernels",
}


def _read_heat(reader: SessionReader) -> SourceHeat:
    from fx_explorer.analysis.heat.source_heat import source_heat  # not needed for the first paint

    return source_heat(reader)


class KernelMarks:
    """What panes ask for. The heat of a large session is read beside the screen, once for each time
    that the session grows.
    """

    def __init__(self, widget: Widget, changed: Callable[[], None], takes_long: Callable[[SessionReader], bool]) -> None:
        """``changed`` is called when the heat is another one. ``takes_long`` says of a session whether it is
        too large to be read before the next frame.
        """
        self.is_on = True
        self.heat = NO_HEAT
        self._changed = changed
        self._takes_long = takes_long
        self._renewed: Renewed[SourceHeat] = Renewed(
            Beside(widget, "kernels of lines", "read which kernels compute each line"), self._take, self._cannot
        )
        self._read_of: tuple[SessionReader, int] | None = None

    def lines_of(self, document: Document) -> Mapping[int, LineHeat]:
        """Return the lines of a source file that kernels compute; none while kernels are not marked."""
        return self.heat.of_file(document.id) if self.is_on and document.kind == "source" else {}

    def renew(self, reader: SessionReader) -> None:
        """Read the heat of the session as it is now, if kernels are marked and it has changed."""
        of = (reader, reader.data_version())
        if self.is_on and of != self._read_of:
            self._read_of = of
            self._renewed.renew(reader, _read_heat, takes_long=self._takes_long(reader))

    def forget(self) -> None:
        """Forget the session, which is about to be closed."""
        self._renewed.forget()
        self._read_of, self.heat = None, NO_HEAT

    def legend(self, document: Document) -> str:
        """Say what the gutter of a source file shows, in few words: ``≈% of time`` where that is estimated;
        empty where it shows nothing.
        """
        return LEGENDS[self.heat.measure] if self.lines_of(document) else ""

    def words(self, place: Place) -> str:
        """Say what a line of the source costs: ``3 kernels, 42% of the estimated time``; empty where that is
        not known.
        """
        one = self.lines_of(place.document).get(place.line)
        if one is None or not self.heat.measure:
            return ""
        return f"{counted(len(one.parts), 'kernel')}, {percent(one.share)} of the {self.heat.measure}"

    def _take(self, heat: SourceHeat) -> None:
        if heat != self.heat:
            self.heat = heat
            self._changed()

    def _cannot(self) -> None:
        self._take(NO_HEAT)
