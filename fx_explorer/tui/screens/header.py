"""This module is the top line of the screen: the target, what it ran on, the state of the capture,
and the region to which every view is narrowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from rich.cells import cell_len
from textual.content import Content

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.other_variants import describe_active_variant
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, first_line, seconds
from fx_explorer.highlight import printable
from fx_explorer.model import Graph, Outcome
from fx_explorer.overview.ending import ran_on
from fx_explorer.overview.result_facts import is_bench_alone
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.widgets.one_line import OneLine

Tone = Literal["muted", "running", "good", "notice", "problem"]

COLOURS: dict[Tone, str] = {
    "muted": "$text-muted",
    "running": "$text-accent",
    "good": "$foreground",
    "notice": "$text-warning",
    "problem": "$text-error",
}


@dataclass(frozen=True, slots=True)
class CaptureState:
    """State of the capture as the header shows it: glyph, words and colour."""

    glyph: str
    words: str
    tone: Tone
    keys: tuple[tuple[str, str, str], ...] = ()
    """What can be done now: (key, words, fewer words for a narrow terminal)."""

    @property
    def text(self) -> str:
        return f"{self.glyph} {self.words}"

    def describe_keys(self, width: int) -> str:
        """Return `` · . next stage · r compile to the end``, as it fits into a terminal of so
        many columns; empty where there are no keys.
        """
        text = ""
        for key, words, fewer_words in self.keys:
            text += f" · {key} {words if width >= WIDE else fewer_words}"
        return text


WIDE = 100
"""Number of columns from which on keys have all their words."""


def target_name(reader: SessionReader) -> str:
    """Return ``transformer.py:Transformer``; before the worker knows it, the user's own text."""
    target = reader.meta("target") or {}
    name = target.get("name") or (reader.meta("request") or {}).get("target") or reader.path.name
    return printable(PurePath(str(name)).name)


def conditions(reader: SessionReader, paused_in: str = "") -> str:
    """Return ``torch 2.13.0 · cpu · training``, without unknown parts. A virtual GPU is named
    first, and before it the active variant, if there are several. ``paused_in`` is the name of the
    waiting one.
    """
    environment = reader.meta("environment") or {}
    target = reader.meta("target") or {}
    version = environment.get("torch")
    torch = f"torch {version}" if version else ""
    gpu = environment.get("virtual_gpu")
    if gpu:
        parts = [ran_on(environment), torch]
    else:
        parts = [torch, ran_on(environment)]
    parts.insert(0, describe_active_variant(reader, paused_in))
    if "train" in target:
        # A script says nothing beforehand: it trains if something of it was compiled for a
        # backward, and that it does not is known at its end.
        trains = target["train"] or reader.count(Graph, stage="backward") > 0
        is_open = target.get("kind") == "script" and reader.meta("outcome") is None
        if trains:
            parts.append("training")
        elif not is_open:
            parts.append("inference")
    if target.get("parameters"):
        parts.append(counted(int(target["parameters"]), "parameter"))
    return printable(" · ".join(part for part in parts if part))


MAX_ONLY_CELLS = 36


def only_region(name: str) -> str:
    """Return ``only layers.0.attn, Esc: all``, the region to which every view is narrowed. The end
    of a long name is shown, because it says more.
    """
    shown = printable(name)
    while cell_len(shown) > MAX_ONLY_CELLS:
        shown = "…" + shown[2:]
    return f"only {shown}, Esc: all"


def running_state(doing: str, elapsed_s: float) -> CaptureState:
    return CaptureState("▷", f"{printable(doing)} · {elapsed_s:.0f} s", "running")


def paused_state(waiting: Waiting, keys: tuple[tuple[str, str, str], ...]) -> CaptureState:
    """Return ``‖ paused after Dynamo [0/0]``: it waits for the user, however long that takes.
    Before the first step it waits with all graphs, and with none of them in particular. ``keys``
    lead on from there.
    """
    where = f"[{waiting.compilation}]" if waiting.compilation else ""
    if waiting.gate:
        after = f"paused after {waiting.after}"
    else:
        after = "all stages are recorded"
    return CaptureState(
        "‖",
        printable(" ".join(part for part in (after, where, waiting.direction) if part)),
        "notice",
        keys if waiting.gate else (),
    )


def ended_state(reader: SessionReader) -> CaptureState:
    """Return how the capture in this session ended, or that somebody is still writing it."""
    outcome = reader.meta("outcome")
    if outcome is None:
        return CaptureState("▷", "being written", "running")
    if is_bench_alone(reader):
        return _BENCH.get(outcome["kind"], _BENCH["finished"])
    if is_log(reader) and outcome["kind"] == "finished":
        return CaptureState("✓", "read", "good")
    duration_s = float(reader.meta("finished") or 0)
    took = f" in {seconds(duration_s)}" if duration_s else ""
    return _ended(Outcome.from_json(outcome), took)


_BENCH = {
    "finished": CaptureState("✓", "measured", "good"),
    "cancelled": CaptureState("–", "stopped; the figures so far are kept", "notice"),
}
"""State of a bench, in a session without a capture."""


def _ended(outcome: Outcome, took: str) -> CaptureState:
    if outcome.kind == "finished":
        return CaptureState("✓", f"captured{took}", "good")
    if outcome.kind == "exited":
        text = f"program exited with {outcome.exit_code}"
        if outcome.exit_code == 0:
            return CaptureState("✓", text, "good")
        return CaptureState("✗", text, "problem")
    if outcome.kind == "cancelled":
        return CaptureState("–", "cancelled; results so far are kept", "notice")
    return CaptureState(
        "✗",
        _FAILED[outcome.kind].format(what=printable(_exception(outcome.message))).strip(),
        "problem",
    )


_FAILED: dict[str, str] = {
    "raised": "program raised {what}",
    "killed": "worker was killed",
    "timed_out": "timed out",
    "not_started": "not started",
    "incomplete": "session is incomplete",
}
"""Kind of a failure → the header's short text; the overview has all of it."""


def _exception(message: str) -> str:
    """Return ``ValueError`` for ``ValueError: bad shape``; empty when the message does not begin
    with a name.
    """
    name = first_line(message).partition(":")[0]
    if name.replace(".", "").isidentifier():
        return name
    return ""


NAME = Content.styled("fx-explorer", "bold $text-primary")


class HeaderLine(OneLine):
    """Shows
    ``fx-explorer  model.py:Net   torch 2.13.0 · cpu · training          ✓ captured in 2.1 s``.
    """

    DEFAULT_CSS = """
    HeaderLine { background: $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[str, str, CaptureState] | None = None
        self.only: RegionKey | None = None
        """The region that every view is narrowed to."""

    def begin(self) -> None:
        """Show the name alone, until more is known."""
        self.show(NAME)

    def show_capture(self, left: str, conditions: str, state: CaptureState) -> None:
        """Show what is captured, on what, and the state of the capture."""
        self._shown = (left, conditions, state)
        self._write()

    def narrow(self, region: RegionKey | None) -> None:
        """Name the region that every view is narrowed to; None for none."""
        self.only = region
        self._write()

    def _write(self) -> None:
        if self._shown is None:
            return
        left, conditions, state = self._shown
        if self.only:
            only = Content.styled(f"  {only_region(self.only[1])}", "bold $text-warning")
        else:
            only = Content("")
        name = NAME + only + Content.styled(f"  {left}", "bold")
        colour = COLOURS[state.tone]
        self.show(
            name + Content.styled(f"   {conditions}", "$text-muted"),
            Content.styled(state.text, colour)
            + Content.styled(state.describe_keys(self.app.size.width), "$foreground"),
        )

    def on_resize(self) -> None:
        self._write()
