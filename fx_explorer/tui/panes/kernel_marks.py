"""This module marks kernels in the same way in all panes: by number and colour, and by the cost of
source lines.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import node_at
from fx_explorer.analysis.words import counted
from fx_explorer.drawing.colours import MORE, kernel_kind
from fx_explorer.instruments.kernels.line_heat import NO_HEAT, LineHeat, Measure, SourceHeat
from fx_explorer.model import Graph, Profile
from fx_explorer.tui.background_tasks import BackgroundTask, Renewed, TaskResult
from fx_explorer.tui.widgets.line_painter import Piece

if TYPE_CHECKING:
    from textual.widget import Widget

    from fx_explorer.analysis.documents import Document, Place
    from fx_explorer.instruments.profile.figures import GraphTimes, PlaceTime, ProfiledPlaces
    from fx_explorer.session import SessionReader


LEGENDS: Mapping[Measure, str] = {
    "profiled time": "% profiled",
    "measured time": "% of time",
    "estimated time": "≈% of time",
    "time, partly measured": "≈% of time",
    "bytes moved": "% of bytes",
    "": "",
}
"""Measure → what the percentage before a source line is of."""

COLOURED = "■ one of them"
"""What a coloured block before a source line is."""

COUNTED = "×N kernels"
"""What the number at the end of the gutter of a source line is."""

NUMBERED = "# kernel"
FIRST_OF_SEVERAL = f"3{MORE} #3 and others"
"""What the coloured number before a node is."""


NODES_AT_ONCE = 1_000
"""Maximum number of nodes of a graph whose times are read before the next frame, which takes some
10 ms.
"""

GRAPHS_KEPT = 8
"""Maximum number of graphs whose times are kept: more than there are panes."""


def _read_heat(reader: SessionReader) -> SourceHeat:
    from fx_explorer.instruments.kernels.costs import source_heat

    return source_heat(reader)


def _read_times(reader: SessionReader) -> ProfiledPlaces | None:
    from fx_explorer.instruments.profile.figures import profiled_places

    return profiled_places(reader)


class KernelMarks:
    """The marks of kernels for all panes. The costs of a large session are read in the background,
    once each time the session grows.
    """

    def __init__(
        self,
        widget: Widget,
        changed: Callable[[], None],
        times_changed: Callable[[], None],
        takes_long: Callable[[SessionReader], bool],
        times_take_long: Callable[[SessionReader], bool],
    ) -> None:
        """``changed`` is called when the costs change, ``times_changed`` when the times of a
        profile do. ``takes_long`` and ``times_take_long`` return whether a session is too large to
        be read before the next frame.
        """
        self.is_on = True
        self.heat = NO_HEAT
        self._shares: Counter[int] = Counter()
        self._times: ProfiledPlaces | None = None
        self._graph_times: OrderedDict[int, GraphTimes] = OrderedDict()
        self._times_changed = times_changed
        self._reading: BackgroundTask[GraphTimes] = BackgroundTask(
            widget, "times of nodes", "read the times of a graph's nodes"
        )
        self._renewed_times: Renewed[ProfiledPlaces | None] = Renewed(
            BackgroundTask(widget, "times of places", "read the times of a profile"),
            self._take_times,
            self._cannot_read_times,
        )
        self._changed = changed
        self._takes_long = takes_long
        self._times_take_long = times_take_long
        self._renewed: Renewed[SourceHeat] = Renewed(
            BackgroundTask(widget, "kernels of lines", "read the kernels of each line"),
            self._take,
            self._cannot,
        )
        self._read_of: tuple[SessionReader, int] | None = None

    @property
    def times(self) -> ProfiledPlaces | None:
        """Return the times of the session's profile; None without one, and while kernels are not
        marked.
        """
        return self._times if self.is_on else None

    @property
    def shares(self) -> Mapping[int, float]:
        """Return each kernel → its share of all kernels' time; empty while that is not known."""
        if not self._shares:
            shares: Counter[int] = Counter()
            for lines in self.heat.files.values():
                for line_heat in lines.values():
                    shares.update(dict(line_heat.parts))
            self._shares = shares
        return self._shares

    def times_of_graph(self, reader: SessionReader, graph: int) -> GraphTimes | None:
        """Return the times of the nodes of a graph; None if no node has one, or if they are still
        being read: large graphs are read in the background, one after the other.
        """
        if self.times is None:
            return None
        if graph not in self._graph_times and not self._reading.is_busy:
            self._read_times(reader, reader.get(Graph, graph), self.times)
        known = self._graph_times.get(graph)
        return known if known and known.whole.seconds else None

    def time_of_node(self, reader: SessionReader, place: Place) -> PlaceTime | None:
        """Return the time of the node at a place of a graph; None for other places, and if it has
        none or is not known yet.
        """
        node = node_at(reader, place)
        times = self.times_of_graph(reader, node.graph) if node else None
        return times.of_node(node.id) if times and node else None

    def _read_times(self, reader: SessionReader, graph: Graph, places: ProfiledPlaces) -> None:
        from fx_explorer.instruments.profile.figures import graph_times

        if graph.node_count <= NODES_AT_ONCE:
            self._keep_times(graph, graph_times(reader, graph, places))
            return

        def take(made: TaskResult[GraphTimes]) -> None:
            made.reader.close()
            self._keep_times(graph, made.value)
            self._times_changed()

        self._reading.begin(
            reader.path, lambda beside: graph_times(beside, graph, places), take, lambda _: None
        )

    def _keep_times(self, graph: Graph, times: GraphTimes) -> None:
        self._graph_times[graph.id] = times
        while len(self._graph_times) > GRAPHS_KEPT:
            self._graph_times.popitem(last=False)

    def lines_of(self, document: Document) -> Mapping[int, LineHeat]:
        """Return the lines of a source file that kernels compute; none while kernels are not
        marked.
        """
        if self.is_on and document.kind == "source":
            return self.heat.files.get(document.id, {})
        return {}

    def renew(self, reader: SessionReader) -> None:
        """Read the costs of the session again, if kernels are marked and the session has
        changed.
        """
        read_of = (reader, reader.data_version())
        if self.is_on and read_of != self._read_of:
            self._read_of = read_of
            self._renewed.renew(reader, _read_heat, takes_long=self._takes_long(reader))
            if self._times is not None or reader.has(Profile):
                self._renewed_times.renew(
                    reader, _read_times, takes_long=self._times_take_long(reader)
                )

    def forget(self) -> None:
        """Forget the session, which is about to be closed."""
        self._renewed.forget()
        self._renewed_times.forget()
        self._read_of, self.heat, self._times = None, NO_HEAT, None
        self._shares = Counter()
        self._reading.stop()
        self._graph_times.clear()

    def legend(self, document: Document) -> Sequence[str]:
        """Return what the marks of a document mean, the most important first: of a source file
        ``≈% of time`` if it is estimated; empty if there are no marks.
        """
        if document.kind == "graph" and self.is_on and self.heat.files:
            return NUMBERED, FIRST_OF_SEVERAL
        if self.lines_of(document):
            return [part for part in (LEGENDS[self.heat.measure], COUNTED, COLOURED) if part]
        return ()

    def words(self, place: Place) -> str:
        """Describe the cost of a source line: ``3 kernels, 42% of the estimated time``; empty where
        it is not known.
        """
        line_heat = self.lines_of(place.document).get(place.line)
        if line_heat is None or not self.heat.measure:
            return ""
        return (
            f"{counted(len(line_heat.parts), 'kernel')}, {percent(line_heat.share)} of the "
            f"{self.heat.measure}"
        )

    def _take(self, heat: SourceHeat) -> None:
        if heat != self.heat:
            self.heat = heat
            self._shares = Counter()
            self._changed()

    def _cannot(self) -> None:
        self._take(NO_HEAT)

    def _take_times(self, times: ProfiledPlaces | None) -> None:
        if times != self._times:
            self._times = times
            self._reading.stop()
            self._graph_times.clear()
            self._times_changed()

    def _cannot_read_times(self) -> None:
        self._take_times(None)


# The gutter of a source line: a break or a recompile, then how much the line's kernels take, and
# how many they are: ``✗ ▆▂ 42% ×3``.

BLOCKS = "▁▂▃▄▅▆▇█"

UNKNOWN_BLOCK = "■"
"""Block for a kernel whose cost is not known."""


def source_gutter(
    events: Mapping[int, Piece], heat: Mapping[int, LineHeat], blocks: int
) -> dict[int, list[Piece]]:
    """Return the gutter of each line (from 0) that has any. ``events`` are the glyphs of its
    events. The most expensive kernels of a line have a block each, whose height is their cost: at
    most ``blocks``.
    """
    if not heat:
        return {line: [glyph] for line, glyph in events.items()}
    most = max(line_heat.largest_share for line_heat in heat.values())
    widest = min(blocks, max(len(line_heat.parts) for line_heat in heat.values()))
    if most:
        shares = max(len(percent(line_heat.share)) for line_heat in heat.values())
    else:
        shares = 0
    counts = max(len(_count(line_heat)) for line_heat in heat.values())
    gutter: dict[int, list[Piece]] = {}
    for line in events.keys() | heat.keys():
        glyph = events.get(line, (" ", "muted"))
        pieces = [glyph, (" ", "muted")] if events else []
        if line_heat := heat.get(line):
            pieces += _blocks(line_heat, most, widest)
            pieces += [(f"{percent(line_heat.share):>{shares}}", "text")] if shares else []
            pieces.append((f"{_count(line_heat):<{counts}}", "muted"))
        gutter[line] = pieces
    return gutter


def percent(share: float) -> str:
    """Return ``42%``; ``<1%`` for a share that rounds to 0."""
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"


def _count(line_heat: LineHeat) -> str:
    return f"×{len(line_heat.parts)}"


def _blocks(line_heat: LineHeat, most: float, cells: int) -> list[Piece]:
    shown = line_heat.parts[:cells]
    blocks: list[Piece] = [(_block(share, most), kernel_kind(kernel)) for kernel, share in shown]
    return [(" " * (cells - len(shown)), "muted")] * (len(shown) < cells) + blocks


def _block(share: float, most: float) -> str:
    if most:
        return BLOCKS[max(0, ceil(share / most * len(BLOCKS)) - 1)]
    return UNKNOWN_BLOCK
