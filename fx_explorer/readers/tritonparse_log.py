"""A log of tritonparse becomes a session: kernels with every text below their source, launches,
autotuning.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fx_explorer.model import Outcome
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.growing import Progress
from fx_explorer.readers.torch_trace.opened import lines_of, opened
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.read_log import SEEN_AFTER_S
from fx_explorer.readers.torch_trace.records import MALFORMED, Damage, Record
from fx_explorer.readers.tritonparse_events import Event, as_text, events, table
from fx_explorer.readers.tritonparse_kernels import TRITON, Build, Kernels, LaunchCounter
from fx_explorer.session import SessionWriter

FOUND_AGAIN = ("launch_diff", "autotune_summary", "autotune_analysis", "ir_analysis", "roofline")
"""Kinds of events that ``tritonparse parse`` adds to a log. They are stored as documents."""

MOST_DOCUMENTS = 2_000
"""Maximum number of events that become documents of their own; further ones are counted."""


def read_tritonparse(
    log: Path, session: Path, *, tell: Callable[[Progress], None] | None = None
) -> None:
    """Write the session of a log. ``tell`` is called with the progress. Raises SessionError if it
    cannot be read at all.
    """
    with EventReading(log, session, tell=tell) as reading:
        reading.find()
        reading.finish()


class EventReading:
    """Reads a log into a session. A context manager: the session is written to until it is left."""

    def __init__(
        self, log: Path, session: Path, *, tell: Callable[[Progress], None] | None = None
    ) -> None:
        """``tell`` is called with the progress whenever new data are visible in the session."""
        self._log = log
        self._tell = tell or (lambda _: None)
        self._damage, self._kinds, self._unknown = Damage(), Counter[str](), Counter[str]()
        self._writer = writer = SessionWriter(session, checks_rows=True)
        self._places = places = Places(writer)
        self._compilations = compilations = Compilations(writer, places)
        self._kernels = Kernels(writer, compilations, places)
        self._launches = LaunchCounter(writer, compilations, places, self._kernels)
        self._tuning = Tuning(compilations, self._kernels)
        self._handles: dict[str, Callable[[Event], None]] = {
            "compilation": self._kernels.compiled,
            "launch": self._launches.launched,
            "autotune": self._tuning.tuned,
        }
        self._documents = 0
        self._share_found = 0.0

    def find(self) -> None:
        """Read every event. Raises SessionError for a log that cannot be read at all."""
        self._write_beginning()
        with opened(self._log, self._damage) as log:
            pending = events(lines_of(log.blocks), self._damage)
            is_over = False
            while not is_over:
                with self._writer.transaction():
                    is_over = self._take(pending)
                    self._write_counts()
                self._share_found = log.share_read
                self._tell(self._progress())

    def finish(self) -> None:
        """Write the facts about all events together."""
        self._share_found = 1.0
        with self._writer.transaction():
            self._kernels.finish()
            self._launches.finish()
            self._tuning.finish()
            self._compilations.finish_text()
            self._write_counts()
            self._writer.set_meta("outcome", Outcome("finished").to_json())
        self._tell(self._progress())

    def _take(self, pending: Iterator[Event]) -> bool:
        """Handle events for a while. Return whether there are no more."""
        until = time.monotonic() + SEEN_AFTER_S
        for event in pending:
            self._kinds[event.kind] += 1
            try:
                self._handles.get(event.kind, self._other)(event)
            except MALFORMED:
                self._damage.skipped += 1
                self._damage.note(event.line)
            if time.monotonic() > until:
                return False
        return True

    def _other(self, event: Event) -> None:
        """Store an event without a view as a document, beside the kernel that it names."""
        if event.kind not in FOUND_AGAIN:
            self._unknown[event.kind] += 1
        if self._documents == MOST_DOCUMENTS:
            return
        self._documents += 1
        build = self._kernels.by_hash.get(str(event.fields.get("hash")))
        if build:
            name, record = build.function.row.name, build.function.record
        else:
            name = str(event.fields.get("name") or "")
            record = Record("event", None, "", 0, -1, event.seconds, "", event.line)
            self._compilations.begun_by(record)
            self._compilations.begin_without_frame(record, TRITON)
        title = " · ".join(filter(None, (event.kind, name)))
        self._compilations.add_artifact(
            record, "listing", "kernel", title, "json", as_text(event.fields)
        )

    def _progress(self) -> Progress:
        number = len(self._compilations.all)
        decoded = number if self._share_found == 1 else 0
        return Progress(self._share_found, number, decoded)

    def _write_beginning(self) -> None:
        with self._writer.transaction():
            write_beginning(self._writer, self._log)
            self._writer.set_meta("build", True)  # Triton built what it wrote of

    def _write_counts(self) -> None:
        damage = self._damage
        self._writer.set_meta("skipped_records", damage.skipped)
        log = {
            "format": "tritonparse",
            "records": self._kinds.total(),
            "kinds": dict(self._kinds.most_common(100)),
            "unknown": dict(self._unknown),
            "is_cut_off": damage.is_cut_off,
            "damaged_lines": damage.first_lines,
        }
        self._writer.set_meta("log", log)

    def __enter__(self) -> EventReading:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


# What an autotuner found: the time of each configuration, and which it took (events of kind
# ``autotune``).

MILLISECOND = 1e-3


class Tuning:
    """Notes the times while the log is read, and gives them to the configurations when it was."""

    def __init__(self, compilations: Compilations, kernels: Kernels) -> None:
        self._compilations = compilations
        self._kernels = kernels
        self._events: list[Event] = []

    def tuned(self, event: Event) -> None:
        self._events.append(event)

    def finish(self) -> None:
        for event in self._events:
            name = str(event.fields.get("kernel_name"))
            functions = self._kernels.functions
            of_name = [function for function in functions if function.row.name == name]
            builds = []
            for function in of_name:
                builds += function.builds
            best = str(event.fields.get("best_config"))
            for config, timing in table(event.fields.get("configs_timings")).items():
                for build in builds:
                    if is_of(build, config):
                        self._kernels.change(
                            build,
                            timing_s=_seconds(timing),
                            is_picked=build.row.is_picked or config == best,
                        )
            if of_name:
                title = f"Autotuning · {name}"
                fields = {key: value for key, value in event.fields.items() if key != "stack"}
                text = as_text(fields)
                self._compilations.add_artifact(
                    of_name[0].record, "listing", "output_code", title, "json", text
                )
        self._events.clear()


def is_of(build: Build, config: str) -> bool:
    """Return whether a configuration matches the text of Triton's autotuner: ``BLOCK_M: 16,
    num_warps: 4, num_ctas: 1, num_stages: 2, maxnreg: None``.
    """
    printed = dict(part.split(": ", 1) for part in config.split(", ") if ": " in part)
    if "num_warps" not in printed:
        return False
    options = {"num_ctas": 1, **build.row.options}
    return all(str(options.get(name)) == value for name, value in printed.items())


def _seconds(timing: Any) -> float:
    """Return the median time that the autotuner measured, in seconds. The log has milliseconds,
    with the quantiles after it.
    """
    first = timing[0] if isinstance(timing, list) and timing else timing
    is_time = isinstance(first, int | float) and not isinstance(first, bool) and 0 < first < 1e9
    return first * MILLISECOND if is_time else 0.0
