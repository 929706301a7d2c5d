"""This module is the view of ranks: the answer at the top, ranks that are alike as rows, and below
a description of the row under the cursor.

It ends with the rank whose session is to be opened, and is shown again when that is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.theme import Theme
from textual.widgets import Static

from fx_explorer.analysis.words import counted, seconds
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.instruments.ranks.compared import ComparedRanks
from fx_explorer.instruments.ranks.groups import RankGroup
from fx_explorer.instruments.ranks.rank_finding import rank_numbers
from fx_explorer.instruments.ranks.report import group_text
from fx_explorer.instruments.ranks.sentences import (
    describe_group,
    first_sentence,
    group_figures,
    headline,
)
from fx_explorer.instruments.ranks.summary import RankSummary
from fx_explorer.tui.commands import by_id
from fx_explorer.tui.config import Config
from fx_explorer.tui.keys import priority_bindings, textual_keymap
from fx_explorer.tui.terminal.beginning import TerminalAnswers
from fx_explorer.tui.terminal.driver import AskedDriver
from fx_explorer.tui.theme import THEMES, default_theme
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.footer import key_content
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows

COLUMNS = (
    ListColumn("ranks", max_width=32),
    ListColumn("compiled", "muted", max_width=48, priority=1),
    ListColumn("", max_width=200),
)


@dataclass(frozen=True, slots=True)
class RankRow:
    """A row of the list: a group, or one rank of an opened group."""

    group: RankGroup
    rank: RankSummary
    """The rank that enter opens; of a group, its first rank."""
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
        if len(row.group.members) > 2:
            number = f" ({len(row.group.members):,})"
        else:
            number = ""
        kind = "text" if row.group is self.ranks.groups[0] else "warning"
        words = describe_group(self.ranks, row.group)
        return (
            f"{fold}{rank_numbers(row.group.ranks)}{number}{mark}",
            group_figures(row.group),
            (words, kind),
        )

    def _mark(self, rank: int) -> str:
        return " ◂" if rank == self.marked else ""


CompareTwo = Callable[[Path, Path, tuple[str, str]], str]
"""Makes the text that compares two sessions or logs; it takes a while."""

_HINTED = ("ranks.compare", "ranks.mark", "ranks.other", "ranks.quit")


class RanksApp(App[int | None]):
    """The app of the view of ranks. It returns the rank to be opened; None when the user leaves."""

    TITLE = "fx-explorer"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = priority_bindings("ranks")
    CSS = """
    #title { background: $panel; }
    #answer { height: auto; max-height: 6; padding: 0 1; background: $surface; color: $foreground; }
    #about { background: $panel; }
    #told { height: 1fr; }
    #keys { background: $panel; color: $text-muted; dock: bottom; }
    """

    def __init__(
        self, state: RanksState, where: str, compare_two: CompareTwo, config: Config | None = None
    ) -> None:
        """``where`` is the path that the user named."""
        self.config = config or Config()
        theme = f"fx-{self.config.theme}" if self.config.theme else default_theme()
        self.set_reactive(App.theme, theme)
        super().__init__(driver_class=AskedDriver)
        self.terminal_answers: TerminalAnswers | None = None
        self.typed_before = ""
        self.state = state
        self._where = where
        self._compare_two = compare_two
        self._compared = ""
        """Name of the comparison shown below; empty while the row under the cursor is described
        there.
        """
        self._list = RowList(COLUMNS, id="ranks")
        self._list.is_tree = True
        self._about = OneLine(id="about")
        self._told = CodeView(
            line_numbers=False, id="told", placeholder="Nothing is known about these ranks."
        )
        self._told.wraps = True

    @property
    def available_themes(self) -> dict[str, Theme]:
        return {**super().available_themes, **{theme.name: theme for theme in THEMES}}

    def compose(self) -> ComposeResult:
        yield OneLine(id="title")
        yield Static(Content("\n").join(self._answer()), id="answer")
        yield self._list
        yield self._about
        yield self._told
        yield OneLine(id="keys")

    def on_mount(self) -> None:
        self.set_keymap(textual_keymap(self.config.keys))
        ranks = counted(len(self.state.ranks.summaries), "rank")
        groups = counted(len(self.state.ranks.groups), "group")
        title = Content.styled("fx-explorer", "bold") + Content(f"  {printable(self._where)}")
        self.query_one("#title", OneLine).show(title, Content(f"{ranks} in {groups}"))
        commands = replace(by_id("line.follow"), title="open"), *map(by_id, _HINTED)
        keys = Content("  ").join(key_content(command, self.config.keys) for command in commands)
        self.query_one("#keys", OneLine).show(keys)
        self._list.load(Rows(self.state.cells()), line=self.state.line)
        self._list.focus()
        self.call_after_refresh(self._show_row)

    def _answer(self) -> list[Content]:
        lines = [Content.styled(printable(headline(self.state.ranks)), "bold")]
        sentence = first_sentence(self.state.ranks)
        if sentence:
            return [*lines, Content(printable(sentence))]
        return lines

    @property
    def row(self) -> RankRow:
        rows = self.state.rows()
        return rows[min(self.state.line, len(rows) - 1)]

    @on(LineView.Moved, "#ranks")
    def row_changed(self, message: LineView.Moved) -> None:
        self.state.line = message.line
        self._show_row()

    @on(LineView.Followed, "#ranks")
    def row_followed(self) -> None:
        self.exit(self.row.rank.rank)

    @on(RowList.FoldWanted)
    def fold(self, message: RowList.FoldWanted) -> None:
        """Open a group into its ranks, or close it, with the cursor on the group."""
        group = self.row.group
        if len(group.members) == 1:
            return
        if message.is_folding:
            self.state.opened.discard(group.ranks)
        else:
            self.state.opened.add(group.ranks)
        self.state.line = next(at for at, row in enumerate(self.state.rows()) if row.group is group)
        self._reload()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)  # only then the app has its new size

    def _fit(self) -> None:
        self._fit_list()
        self._show_row()

    def _fit_list(self) -> None:
        """Give the list the rows that it has, and at most half of the screen."""
        rows = len(self.state.rows()) + 1
        self._list.styles.height = max(2, min(rows, self.size.height // 2 - 3))

    def _reload(self) -> None:
        self._fit_list()
        self._list.load(Rows(self.state.cells()), line=self.state.line)

    def _show_row(self) -> None:
        """Describe the row under the cursor, unless a comparison of two ranks is shown."""
        if self._compared:
            return
        row = self.row
        title = f"about rank {row.rank.rank}" if row.is_member else "about these ranks"
        self._show(title, self._about_row(row))

    def _about_row(self, row: RankRow) -> str:
        return "\n".join(
            group_text(self.state.ranks, row.group, row.rank, max(40, self.size.width - 4))
        )

    def _show(self, title: str, text: str) -> None:
        self._about.show(Content.styled(title, "bold"))
        self._told.load(text)

    # keys

    def action_mark(self) -> None:
        self.state.marked = self.row.rank.rank
        self._reload()

    def action_other_list(self) -> None:
        if self._told.has_focus:
            self._list.focus()
        else:
            self._told.focus()

    def action_leave_comparison(self) -> None:
        if self._compared:
            self._compared = ""
            self._list.focus()
            self._show_row()

    def action_leave(self) -> None:
        self.exit(None)

    def action_compare(self) -> None:
        rank, other = self.row.rank.rank, self.state.marked
        if rank == other:
            self._show(
                "compare",
                f"Rank {rank} is already the marked one (◂). Go to another rank, or mark another "
                "one with m.",
            )
            return
        self._compared = f"rank {other} beside rank {rank}"
        self._show(self._compared, f"Reading ranks {other} and {rank} …")
        self._read_both(other, rank)

    @work(
        name="compare two ranks", group="compare", exclusive=True, description="compare two ranks"
    )
    async def _read_both(self, other: int, rank: int) -> None:
        paths = {rank.rank: Path(rank.path) for rank in self.state.ranks.summaries}
        names = f"rank {other}", f"rank {rank}"
        asked = self._compared
        try:
            text = await asyncio.to_thread(self._compare_two, paths[other], paths[rank], names)
        except (FxExplorerError, OSError) as error:
            text = str(error)
        if self._compared == asked:
            self._show(f"{asked}   (escape: back)", text)
            self._told.focus()
