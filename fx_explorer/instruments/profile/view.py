"""This module is the view of a profile of torch.profiler beside the session: where the GPU's time
went, in which gaps it was idle and what the program did in them, and the time of each line of the
user's.
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, place_of_kernel
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import bar, careful_share, counted
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.profile.figures import LineShare, ProfileFigures, profile_figures
from fx_explorer.instruments.profile.verdict import NO_PROFILE, describe_doing, kernel_name, verdict
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

BAR_CELLS = 12

COLUMNS = (
    TableColumn("of", "muted", min_width=6),
    TableColumn("what", "strong", min_width=24, max_width=70),
    TableColumn("time", is_number=True, min_width=8),
    TableColumn("share", "muted", is_number=True, priority=2),
    TableColumn("of the longest", "bar", is_bar=True, min_width=BAR_CELLS, priority=4),
    TableColumn("begins at", "muted", is_number=True, min_width=9, priority=3),
    TableColumn("meanwhile", min_width=24, max_width=110, priority=1),
)


def profile_table(reader: SessionReader) -> ViewTable:
    figures = profile_figures(reader)
    notice, rows = "", []
    if figures:
        notice = verdict(figures)[0]
        rows = list(_Rows(reader, figures).all())
    return ViewTable(
        shows="Where the GPU's time went in a profile, when it was idle and what your program "
        "did meanwhile.",
        notice=notice,
        origin="torch.profiler; assigned by the launch, the compiled graph around it, and the "
        "order of its calls",
        columns=COLUMNS,
        rows=rows,
        empty=NO_PROFILE,
    )


class _Rows:
    """Makes the rows: the sums, then the gaps, then the user's lines, then the work that is joined
    to no kernel.
    """

    def __init__(self, reader: SessionReader, figures: ProfileFigures) -> None:
        self._reader, self._figures = reader, figures
        self._files = {row.path: row.id for row in reader.rows(model.SourceFile)}
        self._told = Detail("\n".join(verdict(figures)))

    def all(self) -> Iterator[TableRow]:
        profile = self._figures.profile
        if not self._figures.is_alone:
            yield self._sum("in compiled graphs, assigned to kernels", profile.joined_s)
        for kind, seconds in self._figures.by_kind.items():
            yield self._sum(self._figures.words_of(kind), seconds)
        if self._figures.gaps:
            yield self._heading(
                "idle",
                f"idle in {counted(profile.gaps, 'gap')}, the longest first",
                self._figures.idle_s,
                1,
            )
            yield from map(self._gap, self._figures.gaps)
        if self._figures.lines:
            yield self._heading("line", "your lines", self._figures.at_line_s, 2)
            yield from map(self._line, self._figures.lines)
        if self._figures.others:
            elsewhere = sum(other.seconds for other in self._figures.others)
            yield self._heading("else", self._title_of_others, elsewhere, 3)
            yield from map(self._other, self._figures.others)

    @property
    def _title_of_others(self) -> str:
        if self._figures.is_alone:
            return "by kernel and operator"
        return "assigned to no kernel, by operator"

    def _sum(self, what: str, seconds: float) -> TableRow:
        whole = self._figures.profile.work_s
        cells = (
            "sum",
            what,
            run_time(seconds),
            careful_share(seconds, whole),
            bar(seconds, whole, BAR_CELLS),
            "",
            "",
        )
        return TableRow(
            cells, detail=lambda: self._told, values={"time": seconds, "of the longest": seconds}
        )

    def _heading(self, kind: str, what: str, seconds: float, part: int) -> TableRow:
        return TableRow(
            (kind, what, run_time(seconds), "", "", "", ""),
            detail=lambda: self._told,
            part=part,
            is_heading=True,
        )

    def _gap(self, gap: model.ProfileGap) -> TableRow:
        longest, span = self._figures.gaps[0].seconds, self._figures.profile.span_s
        cells = (
            "idle",
            f"before {kernel_name(gap.after)}",
            run_time(gap.seconds),
            careful_share(gap.seconds, span),
            bar(gap.seconds, longest, BAR_CELLS),
            run_time(gap.start_s),
            describe_doing(gap),
        )
        kernel = gap.after_kernel or gap.before_kernel
        find_place = (lambda: self._place_of(kernel)) if kernel else None
        return TableRow(
            cells,
            detail=lambda: Detail(_about_gap(gap)),
            values={"time": gap.seconds, "of the longest": gap.seconds, "begins at": gap.start_s},
            part=1,
            find_place=find_place,
        )

    def _place_of(self, kernel: int) -> Place | None:
        kernels = self._reader.by_ids(model.Kernel, [kernel])
        if kernels:
            return place_of_kernel(self._reader, kernels[0])
        return None

    def _line(self, line_share: LineShare) -> TableRow:
        whole, most = self._figures.profile.work_s, self._figures.lines[0].seconds
        parts = [(line_share.forward_s, "forward"), (line_share.backward_s, "backward")]
        text = " · ".join(f"{run_time(seconds)} {name}" for seconds, name in parts if seconds)
        shares = (
            careful_share(line_share.seconds, whole),
            bar(line_share.seconds, most, BAR_CELLS),
        )
        path, line = line_share.line
        file = self._files.get(path)
        place = Place(Document("source", file), line - 1) if file else None
        return TableRow(
            ("line", in_file(path, line), run_time(line_share.seconds), *shares, "", text),
            place,
            values={"time": line_share.seconds, "of the longest": line_share.seconds},
            part=2,
        )

    def _other(self, other: model.ProfileOther) -> TableRow:
        whole, most = self._figures.profile.work_s, self._figures.others[0].seconds
        where = [f"[{other.compilation}]"] if other.compilation else []
        where += [in_file(other.file, other.line)] if other.line else []
        text = f"{self._figures.words_of(other.kind)}, {other.runs:,}×" + "".join(
            f", {part}" for part in where
        )
        shares = (careful_share(other.seconds, whole), bar(other.seconds, most, BAR_CELLS))
        values = {"time": other.seconds, "of the longest": other.seconds}
        return TableRow(
            ("else", other.name, run_time(other.seconds), *shares, "", text), values=values, part=3
        )


def _about_gap(gap: model.ProfileGap) -> str:
    """Describe a gap: the work before and after it, and all that the program did in it."""
    parts = [
        (
            f"The GPU is idle for {run_time(gap.seconds)}, {run_time(gap.start_s)} after its "
            "first work."
        ),
        f"before: {gap.before}",
        f"after:  {gap.after}",
    ]
    if gap.doing:
        parts.append("Meanwhile, the thread that launches the next GPU work:")
        parts += [
            f"  {run_time(took):>8}  {what}"
            for what, took in zip(gap.doing, gap.doing_s, strict=False)
        ]
    else:
        parts.append("The profile does not say which thread launched the next GPU work.")
    return "\n".join(parts)
