"""The outline at the left lists sources, compilations, their graphs, texts and kernels, and it
folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from textual.message import Message

from fx_explorer.analysis.documents import Place
from fx_explorer.overview.outline import EntryStatus, OutlineEntry
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows

GLYPHS: dict[EntryStatus, Piece] = {
    "running": ("▷ ", "annotation"),
    "ok": ("✓ ", "good"),
    "broke": ("▲ ", "warning"),
    "failed": ("✗ ", "bad"),
    "skipped": ("– ", "muted"),
    "restarted": ("↻ ", "muted"),
    "left": ("↰ ", "muted"),
    "missing": ("– ", "muted"),
}

MANY_CHILDREN = 12
"""Number of entries above which a group starts folded."""

MANY_ENTRIES = 120
"""Number of entries of an outline above which only the first compilation starts unfolded."""

CHROME_ROWS = 6
"""Number of rows of the screen around the outline."""

COLUMNS = (
    ListColumn("", "text", min_width=12, max_width=200),
    ListColumn("", "muted", "right", min_width=1, max_width=6),
)


class Outline(RowList):
    """Shows ``▾ [0/0] MLP.forward``, ``  Forward graph  78 nodes`` and so on. Enter shows what is
    under the cursor; ← and → fold.
    """

    DEFAULT_CSS = """
    Outline { width: 22%; min-width: 32; max-width: 60; }
    """

    class Chosen(Message):
        """Posted by enter on an entry that leads somewhere."""

        def __init__(self, place: Place) -> None:
            super().__init__()
            self.place = place

    def __init__(self) -> None:
        super().__init__(COLUMNS, placeholder="Nothing has been compiled yet.", header=False)
        self._given: list[OutlineEntry] = []
        self._entries: list[OutlineEntry] = []
        """The given entries, including those that were read below opened entries."""
        self._read: ReadBelow = _nothing_below
        self._opened: dict[tuple[int, ...], list[OutlineEntry]] = {}
        self._folded: set[str] = set()
        self._known: set[str] = set()
        self._shown: list[int] = []

    def show(self, entries: Sequence[OutlineEntry], read_below: ReadBelow | None = None) -> None:
        """Show these entries. Folded entries stay folded, and the cursor stays on its entry.
        ``read_below`` returns the unread entries below one.
        """
        entries = merged_missing(entries)
        self._read = read_below or _nothing_below
        if entries == self._given:
            return
        paths = entry_paths(entries)
        folded = folded_at_first(entries, paths) - self._known
        unread = {path for path, entry in zip(paths, entries, strict=True) if entry.unread}
        unread -= self._known
        rows = self.size.height or self.app.size.height - CHROME_ROWS
        self._folded |= (
            unfolded_to_fit(paths, folded - unread, self._folded | unread, rows) | unread
        )
        self._known |= set(paths)
        self._given = entries
        self._entries = self._with_opened()
        self._rebuild()

    def forget(self) -> None:
        """Drop the data of a session that is about to be closed."""
        self._read = _nothing_below
        self._opened.clear()

    def _with_opened(self) -> list[OutlineEntry]:
        entries: list[OutlineEntry] = []
        for entry in self._given:
            below = self._opened.get(entry.unread, []) if entry.unread else []
            if below:
                entries += [replace(entry, unread=()), *below]
            else:
                entries.append(entry)
        return entries

    def _open(self, entry: OutlineEntry) -> None:
        """Read the entries below an entry."""
        if entry.unread and entry.unread not in self._opened:
            self._opened[entry.unread] = self._read(entry)
            self._entries = self._with_opened()

    @property
    def text(self) -> str:
        """Return the entry under the cursor in full, because its row may cut it."""
        if self._shown:
            entry = self._entries[self._shown[self.cursor]]
        else:
            entry = OutlineEntry(0, "")
        if entry.detail:
            return f"{entry.title} · {entry.detail}"
        return entry.title

    @property
    def place(self) -> Place | None:
        """Return the place of the entry under the cursor; None without one."""
        if self._shown:
            return self._entries[self._shown[self.cursor]].place
        return None

    @property
    def compilation(self) -> int:
        """Return the id of the compilation of the entry under the cursor; 0 without one."""
        at = self._shown[self.cursor] if self._shown else -1
        headings = (
            entry for entry in self._entries[at::-1] if entry.depth == 0 or entry.is_variant
        )
        if at >= 0:
            return next((entry.compilation for entry in headings), 0)
        return 0

    def _rebuild(self) -> None:
        paths = entry_paths(self._entries)
        self._shown = visible_entries(paths, self._folded)
        rows = [
            self._row(self._entries[i], paths[i], has_children(self._entries, i))
            for i in self._shown
        ]
        self._source = Rows(rows)
        self.reload()

    def _row(self, entry: OutlineEntry, path: str, is_group: bool) -> Row:
        if not is_group:
            arrow = "  "
        elif path in self._folded:
            arrow = "▸ "
        else:
            arrow = "▾ "
        has_state = entry.depth == 0 or entry.is_variant or entry.status not in ("", "ok")
        if has_state:
            glyph = GLYPHS.get(entry.status, ("", "text"))
        else:
            glyph = ("", "text")
        if entry.depth == 0 or entry.is_variant:
            kind = "strong"
        elif entry.status == "missing":
            kind = "muted"
        else:
            kind = "text"
        title: list[Piece] = [(" " * entry.depth + arrow, "muted"), glyph, (entry.title, kind)]
        return title, (short_detail(entry), "muted")

    def action_columns_by(self, columns: int) -> None:
        self._fold(columns < 0)

    def _fold(self, is_folding: bool) -> None:
        if not self._shown:
            return
        paths = entry_paths(self._entries)
        at = self._shown[self.cursor]
        if is_folding and (not has_children(self._entries, at) or paths[at] in self._folded):
            at = parent_of(self._entries, at)
            self.move_to(self._shown.index(at))
        if is_folding and has_children(self._entries, at):
            self._folded.add(paths[at])
        elif not is_folding:
            self._open(self._entries[at])
            self._folded.discard(paths[at])
        self._rebuild()

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        if self.place:
            self.post_message(self.Chosen(self.place))
        elif self._shown:
            self._fold(entry_paths(self._entries)[self._shown[self.cursor]] not in self._folded)


ReadBelow = Callable[[OutlineEntry], list[OutlineEntry]]
"""A function that reads the entries below one."""


def _nothing_below(_: OutlineEntry) -> list[OutlineEntry]:
    return []


def merged_missing(entries: Sequence[OutlineEntry]) -> list[OutlineEntry]:
    """Return the entries, with stages that are missing for the same reason merged into one: the
    reason, then the stages.
    """
    merged: list[OutlineEntry] = []
    for entry in entries:
        last = merged[-1] if merged else None
        if entry.status != "missing":
            merged.append(entry)
        elif last and last.status == "missing" and last.title == entry.detail:
            merged[-1] = replace(last, detail=f"{last.detail}, {entry.title}")
        else:
            merged.append(replace(entry, title=entry.detail, detail=f"no {entry.title}"))
    return merged


def short_detail(entry: OutlineEntry) -> str:
    """Return the number in a detail (``292`` for ``292 nodes``), because there is no room for
    more.
    """
    number = entry.detail.partition(" ")[0]
    if number.replace(",", "").isdigit():
        return number
    return ""


def entry_paths(entries: Sequence[OutlineEntry]) -> list[str]:
    """Return a name per entry that stays the same while the list grows: its titles from the top,
    and its number among entries of that name.
    """
    trail: list[str] = []
    seen: dict[str, int] = {}
    paths = []
    for entry in entries:
        trail = [*trail[: entry.depth], entry.title]
        path = "/".join(trail)
        seen[path] = seen.get(path, -1) + 1
        paths.append(f"{path}#{seen[path]}")
    return paths


def has_children(entries: Sequence[OutlineEntry], index: int) -> bool:
    if entries[index].unread:
        return True
    return index + 1 < len(entries) and entries[index + 1].depth > entries[index].depth


def children_count(entries: Sequence[OutlineEntry], index: int) -> int:
    count = 0
    for entry in entries[index + 1 :]:
        if entry.depth <= entries[index].depth:
            break
        count += 1
    return count


def parent_of(entries: Sequence[OutlineEntry], index: int) -> int:
    """Return the index of the entry that contains this one; its own index at the top."""
    return next((i for i in range(index, -1, -1) if entries[i].depth < entries[index].depth), index)


def visible_entries(paths: Sequence[str], folded: set[str]) -> list[int]:
    """Return the indices of the entries that no folded entry holds."""
    visible = []
    hidden_below: str | None = None
    for index, path in enumerate(paths):
        name = path.rpartition("#")[0]
        if hidden_below is not None and name.startswith(hidden_below + "/"):
            continue
        hidden_below = name if path in folded else None
        visible.append(index)
    return visible


def unfolded_to_fit(
    paths: Sequence[str], folded: set[str], others: set[str], rows: int
) -> set[str]:
    """Return ``folded`` without the groups that fit into ``rows`` unfolded, from the top.
    ``others`` are folded already.
    """
    if len(paths) > MANY_ENTRIES:
        return folded
    for path in [path for path in paths if path in folded]:
        if len(visible_entries(paths, others | folded - {path})) <= rows:
            folded = folded - {path}
    return folded


def folded_at_first(entries: Sequence[OutlineEntry], paths: Sequence[str]) -> set[str]:
    """Return the groups that would push everything else off the screen."""
    groups = [i for i in range(len(entries)) if has_children(entries, i)]
    inner = [i for i in groups if entries[i].depth > 0]
    folded = {paths[i] for i in inner if children_count(entries, i) > MANY_CHILDREN}
    if len(entries) > MANY_ENTRIES:
        tops = [i for i in groups if entries[i].depth == 0]
        folded |= {paths[i] for i in tops[2:]}
    return folded
