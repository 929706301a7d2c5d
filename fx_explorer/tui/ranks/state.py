"""What the view of ranks keeps while the session of one of them is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fx_explorer.analysis.ranks.groups import RankGroup
from fx_explorer.analysis.ranks.rank_words import rank_numbers
from fx_explorer.analysis.ranks.summary import RankSummary
from fx_explorer.analysis.words import counted, seconds
from fx_explorer.ranks.compared import ComparedRanks
from fx_explorer.report.ranks.sentences import group_figures, group_words
from fx_explorer.tui.widgets.row_list import ListColumn, Row

COLUMNS = (
    ListColumn("ranks", max_width=32),
    ListColumn("compiled", "muted", max_width=48, priority=1),
    ListColumn("", max_width=200),
)


@dataclass(frozen=True, slots=True)
class RankRow:
    """A row: a group, or one rank of a group that is open."""

    group: RankGroup
    rank: RankSummary
    """The rank that enter opens: of a group its first."""
    is_member: bool = False


@dataclass(slots=True)
class RanksState:
    """Which groups are open, where the cursor is, and which rank is marked."""

    ranks: ComparedRanks
    opened: set[tuple[int, ...]] = field(default_factory=set)
    line: int = 0
    marked: int = -1
    """The rank that others are compared with."""

    def __post_init__(self) -> None:
        self.marked = self.ranks.groups[0].first.rank
        self.line = min(
            1, len(self.ranks.groups) - 1
        )  # the first group that diverges, where there is one

    def rows(self) -> list[RankRow]:
        found = []
        for group in self.ranks.groups:
            found.append(RankRow(group, group.first))
            if group.ranks in self.opened and len(group.members) > 1:
                found += [RankRow(group, member, is_member=True) for member in group.members]
        return found

    def cells(self) -> Sequence[Row]:
        return [self._row(row) for row in self.rows()]

    def _row(self, row: RankRow) -> Row:
        if row.is_member:
            took = (
                f"{counted(len(row.rank.compilations), 'compilation')}, "
                f"{seconds(row.rank.compile_s)}"
            )
            return (f"    {row.rank.rank}{self._mark(row.rank.rank)}", took, row.rank.unknown_end)
        if len(row.group.members) == 1:
            fold = "  "
        elif row.group.ranks in self.opened:
            fold = "▾ "
        else:
            fold = "▸ "
        mark = self._mark(self.marked) if self.marked in row.group.ranks else ""
        number = f" ({len(row.group.members):,})" if len(row.group.members) > 2 else ""
        kind = "text" if row.group is self.ranks.groups[0] else "warning"
        words = group_words(self.ranks, row.group)
        return (
            f"{fold}{rank_numbers(row.group.ranks)}{number}{mark}",
            group_figures(row.group),
            (words, kind),
        )

    def _mark(self, rank: int) -> str:
        return " ◂" if rank == self.marked else ""
