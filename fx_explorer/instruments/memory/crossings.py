"""Values that cross graph breaks: which input of a graph is what an earlier graph computed."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.breaks.kept_across import KeptValues
from fx_explorer.session import SessionReader


class Crossings:
    """Answers whose value an input of Dynamo's graph is. Rows are read once; a session without
    breaks has none.
    """

    def __init__(self, reader: SessionReader) -> None:
        rows = reader.rows(model.LocalTensor)
        self._sources = {row.node: row.source for row in rows if row.is_input}
        self._handed_over: dict[str, list[int]] = {}
        for row in rows:
            if not row.is_input and row.source:
                self._handed_over.setdefault(row.source, []).append(row.node)
        used = in_use(reader)
        self._kept = KeptValues(reader, used.saving if used else None)

    def computed_by(self, node: int) -> int:
        """Return the node of an earlier graph whose value an input is, by the name that Python
        knows it under at the break; 0 where it is none's.
        """
        source = self._sources.get(node, "")
        return max((one for one in self._handed_over.get(source, ()) if one < node), default=0)

    def is_kept_before(self, node: int) -> bool:
        """Return whether the graph that computes an input keeps it for its own backward, too."""
        computed = self.computed_by(node)
        return bool(computed and self._kept.of(computed))
