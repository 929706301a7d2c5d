"""For how long the program was seen to hold what its graphs returned, by the storages of their
replays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fx_explorer import model
from fx_explorer.analysis.memory.graph_memory import Segment
from fx_explorer.session import SessionReader

Storage = tuple[int, int]
"""A graph by its position in the step, and a storage of its replay by its number."""


class ReturnedStorages:
    """What was seen of a step's storages while the program ran. In sessions of before version 11, and
    where graphs were built, nothing was.
    """

    def __init__(
        self,
        reader: SessionReader,
        segments: Sequence[Segment],
        inputs: Sequence[Mapping[str, int]],
    ) -> None:
        """``inputs`` are, for each segment, its arguments by their names, as inputs of Dynamo's graph
        (nodes).
        """
        self._seen: dict[Storage, list[model.ReturnedStorage]] = {}
        of_compilation: dict[int, list[model.ReturnedStorage]] = {}
        for row in reader.rows(model.ReturnedStorage):
            of_compilation.setdefault(row.compilation, []).append(row)
        for at, segment in enumerate(segments):
            for row in of_compilation.get(segment.captured_as, ()):
                for number in _storages(segment, row):
                    self._seen.setdefault((at, number), []).append(row)
        self._positions = {segment.captured_as: at for at, segment in enumerate(segments)}
        self._takers = {
            node: (at, number)
            for at, one in enumerate(segments)
            for node, number in _taken(one, inputs[at])
        }
        self._computed = {
            node for rows in of_compilation.values() for row in rows for node in row.taken_by
        }

    def of(self, at: int, number: int) -> Sequence[model.ReturnedStorage]:
        """Return what was seen of a storage that a graph returns."""
        return self._seen.get((at, number), ())

    def position(self, compilation: int, otherwise: int) -> int:
        """Return the position in the step of a compilation's graph."""
        return self._positions.get(compilation, otherwise)

    def taken_as(self, node: int) -> Storage | None:
        """Return the storage that an input of Dynamo's graph is in the replay of its segment; None where
        that segment is not part of the step.
        """
        return self._takers.get(node)

    def is_computed(self, node: int) -> bool:
        """Return whether an earlier graph returned what an input of Dynamo's graph was given."""
        return node in self._computed


def _storages(segment: Segment, row: model.ReturnedStorage) -> set[int]:
    """Return the storages of a replay that results of Dynamo's graph lie in."""
    returned = segment.forward.replayed.returned
    outputs = (at for at, result in enumerate(segment.results) if result in row.positions)
    return {number for at in outputs if at < len(returned) for number in returned[at]}


def _taken(segment: Segment, inputs: Mapping[str, int]) -> list[tuple[int, int]]:
    storages = enumerate(segment.forward.replayed.storages)
    return [
        (inputs[one.name], number)
        for number, one in storages
        if one.is_argument and one.name in inputs
    ]
