"""A log of torch's structured trace becomes a session.

First all records are found, and what happened is written: compilations and how they ended, breaks,
recompiles, sizes, times. What is long and is looked at one by one (graphs, guards, generated code)
is put off, and decoded when everything was found. The texts of a log that can be read again may
stay where they are: the session only knows where (``session/elsewhere.py``).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from fx_explorer import __version__
from fx_explorer.errors import SessionError
from fx_explorer.model import Outcome, Stage
from fx_explorer.readers.torch_trace.compilation_records import Compilations, LogCompilation
from fx_explorer.readers.torch_trace.dynamo_records import DynamoRecords, ProgramRecords
from fx_explorer.readers.torch_trace.graph_records import STAGE_OF, GraphRecords
from fx_explorer.readers.torch_trace.growing import GrowingLog, Progress
from fx_explorer.readers.torch_trace.inductor_records import InductorRecords
from fx_explorer.readers.torch_trace.kernel_stacks import KERNEL_STACKS, KernelStacks
from fx_explorer.readers.torch_trace.opened import STANDARD_INPUT, OpenedLog, TextsOfLog, opened
from fx_explorer.readers.torch_trace.other_records import OtherRecords
from fx_explorer.readers.torch_trace.parsing_ahead import (
    ParsingProcess,
    is_long_and_plain,
    parsing_process,
)
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import MALFORMED, Damage, Record, records
from fx_explorer.session import SessionWriter

Handle = Callable[[Record], None]

MOST_RANKS = 1_000
"""Maximum number of ranks of one log that are named."""

SEEN_AFTER_S = 0.25
"""Seconds between two updates of the session for concurrent readers."""


DECODED_SEEN_AFTER_S = 1.0
"""Seconds between two updates of the decoded compilations. It is longer, because each time the app
reads the overview and the outline again.
"""


def read_log(
    log: Path,
    session: Path,
    *,
    leave_texts: bool = False,
    tell: Callable[[Progress], None] | None = None,
) -> None:
    """Write the session of a log. Unreadable parts are counted in it: ``skipped_records``, and the
    entry ``log``.

    With ``leave_texts`` the session can be read only as long as the log exists, and only by readers
    that know the log (``opened.py``). ``tell`` gets the progress.

    Raises SessionError for a log that cannot be read at all.
    """
    with LogReading(log, session, leave_texts=leave_texts, tell=tell) as reading:
        reading.parse_ahead()
        reading.find()
        reading.decode()


class LogOrigin(NamedTuple):
    """Name and path of what a log was taken out of."""

    name: str
    file: str


class LogReading:
    """Reads a log into a session. A context manager: the session is written to until it is left."""

    origin: LogOrigin | None = None
    """What the log is shown as, where it was taken out of something else."""

    _ahead: ParsingProcess | None = None

    _has_indexes = True

    _most_kept = 0
    """Maximum number of characters of texts that are kept until they are decoded."""

    def __init__(
        self,
        log: Path,
        session: Path,
        *,
        leave_texts: bool = False,
        tell: Callable[[Progress], None] | None = None,
    ) -> None:
        """``tell`` is called with the progress whenever new data are visible in the session."""
        self._log = log
        self._tell = tell or (lambda _: None)
        self._damage, self._kinds = Damage(), Counter[str]()
        self._writer = writer = SessionWriter(session, checks_rows=True)
        self._texts = TextsOfLog(log)
        places = Places(writer)
        self._compilations = compilations = Compilations(writer, places)
        self._graphs = graphs = GraphRecords(writer, compilations, places)
        self._code = InductorRecords(writer, compilations, graphs)
        self._programs = ProgramRecords(writer, compilations, graphs, places)
        self._others = OtherRecords(writer, compilations)
        self._stacks = KernelStacks(writer, compilations, graphs, self._code, places)
        self._decoders: dict[str, Handle] = {
            "str": places.intern,
            **compilations.handles(),
            **DynamoRecords(writer, compilations, places).handles(),
            **graphs.handles(),
            **self._code.handles(),
            **self._programs.handles(),
            KERNEL_STACKS: self._kernel_stacks,
        }
        self._leave_texts = leave_texts
        self._ranks: set[int] = set()
        self._share_found = 0.0
        self._decoded = 0
        self._is_followed = False
        self._lost_its_name = False
        self._until_closed = contextlib.ExitStack()
        self._until_closed.callback(writer.close)

    def parse_ahead(self) -> None:
        """Prepare for decoding at once when all is found, before anybody reads the session: keep
        texts until then, and parse long ones in a second process, where that is a gain.
        """
        self._most_kept = MOST_KEPT
        self._writer.drop_indexes()
        self._has_indexes = False
        if self._log != STANDARD_INPUT and is_long_and_plain(self._log):
            self._ahead = self._until_closed.enter_context(parsing_process(self._log))

    def _kernel_stacks(self, record: Record) -> None:
        """Give the nodes their stacks, and keep the record as a text to read."""
        self._others.add(record)
        self._stacks.add(record)

    def find(self) -> None:
        """Find every record, and write the events. Raises SessionError for a log that cannot be
        read at all.
        """
        self._write_beginning()
        handles = self._decoders
        with opened(self._log, self._damage) as log:
            if log.is_plain:
                handles = {**handles, **self._put_off().handles()}
                self._compilations.leaves_texts = self._leave_texts
            self._find(log, handles)
            if self._log == STANDARD_INPUT and not self._kinds:
                raise SessionError(
                    "the standard input has no torch records: give it a TORCH_TRACE log, zcat "
                    "trace.log.gz | …"
                )
        with self._writer.transaction():
            self._compilations.finish()
            self._share_found = 1.0
            self._write_counts()
        self._tell(self.progress)

    def _put_off(self) -> PutOff:
        return PutOff(self._compilations, self._ahead, self._most_kept)

    def _find(self, log: OpenedLog, handles: dict[str, Handle]) -> None:
        pending = records(log.blocks, self._damage)
        is_over = False
        while not is_over:
            with self._writer.transaction():
                is_over = self._take(pending, handles) == "over"
                self._write_counts()
            self._share_found = log.share_read
            self._tell(self.progress)

    def follow(self, growing: GrowingLog) -> None:
        """Read the present content, and then a job's additions, until the log is removed or
        replaced. Raises SessionError if it was truncated.
        """
        self._is_followed = True
        self._texts = TextsOfLog(self._log, growing.file)
        self._write_beginning()
        self._compilations.leaves_texts = self._leave_texts
        handles = {**self._decoders, **PutOff(self._compilations).handles()}
        pending = records(growing.blocks(), self._damage)

        def tell() -> None:
            self._tell(replace(self.progress, share_found=1.0, idle_s=growing.idle_s))

        try:
            goes_on = True
            while goes_on:
                with self._writer.transaction():
                    is_idle = self._take(pending, handles) == "idle"
                    if is_idle:
                        self._decode_what_came()
                tell()
                goes_on = not is_idle or growing.wait(tell)
        except SessionError:
            self._end_following(growing, pending, handles)
            raise
        self._lost_its_name = True
        self._end_following(growing, pending, handles)
        with self._writer.transaction():
            self._writer.set_meta("outcome", Outcome("finished").to_json())

    def _end_following(
        self, growing: GrowingLog, pending: Iterator[Record | None], handles: dict[str, Handle]
    ) -> None:
        """Handle the last record, which was still being written, and all that waited for more
        records.
        """
        growing.end()
        with self._writer.transaction():
            self._take(pending, handles)
        self._decode_all(lambda: 0)

    def _decode_what_came(self) -> None:
        for state in self._compilations.all:
            self._decode(state, is_over=False)
        self._compilations.finish(is_over=False)
        self._write_counts()

    def _take(
        self, pending: Iterator[Record | None], handles: dict[str, Handle]
    ) -> Literal["more", "idle", "over"]:
        """Handle records for a while. Return whether there are more; ``idle``: none have been
        written yet.
        """
        until = time.monotonic() + SEEN_AFTER_S
        for record in pending:
            if record is None:
                return "idle"
            self._kinds[record.name] += 1
            if len(self._ranks) < MOST_RANKS:
                self._ranks.add(record.rank)
            # What is compiled without Dynamo has no name that it could be found by later.
            known = handles if record.compilation else self._decoders
            self._handle(known.get(record.name, self._others.add), record)
            if time.monotonic() > until:
                return "more"
        return "over"

    def _handle(self, handle: Handle, record: Record) -> None:
        try:
            self._compilations.begun_by(record)
            handle(record)
        except MALFORMED:
            self._damage.skipped += 1
            self._damage.note(record.line)

    @property
    def progress(self) -> Progress:
        return Progress(self._share_found, len(self._compilations.all), self._decoded)

    def decode(self, wanted: Callable[[], int] = lambda: 0) -> None:
        """Decode deferred records, compilation by compilation. ``wanted`` returns the next one's
        id; 0: any.
        """
        self._decode_all(wanted)
        if not self._has_indexes:
            self._writer.create_indexes()
        with self._writer.transaction():
            self._writer.set_meta("outcome", Outcome("finished").to_json())

    def _decode_all(self, wanted: Callable[[], int]) -> None:
        left = {state.row.id: state for state in self._compilations.all}
        while left:
            with self._writer.transaction():
                self._decode_some(left, wanted)
            self._tell(self.progress)
        with self._writer.transaction():
            self._finish()
            self._write_counts()

    def _decode_some(self, left: dict[int, LogCompilation], wanted: Callable[[], int]) -> None:
        """Decode compilations for ``DECODED_SEEN_AFTER_S``. The one that the user waits for comes
        first and is shown at once.
        """
        until = time.monotonic() + DECODED_SEEN_AFTER_S
        is_wanted = False
        while left and not is_wanted and time.monotonic() < until:
            number = wanted()
            is_wanted = number in left
            following = number if is_wanted else next(iter(left))
            self._decode(left.pop(following))
            self._decoded += 1

    def _decode(self, state: LogCompilation, *, is_over: bool = True) -> None:
        """Decode the deferred records of a compilation. With ``is_over``, it gets no more records,
        and data that wait for them are finished.
        """
        if state.put_off:
            with self._compilations.again(state):
                for record in state.put_off:
                    self._handle(self._decode_record, record)
            state.put_off.clear()
        if not is_over:
            return
        self._code.finish_compilation(
            state.row.id
        )  # links what waited, to nodes that are still known
        self._graphs.forget(state.row.id)

    def _decode_record(self, record: Record) -> None:
        if not record.payload:
            record = self._texts.with_text(record)
        if self._ahead:
            record = self._ahead.with_parsed(record)
        self._decoders[record.name](record)

    def _finish(self) -> None:
        """Write data that waited for a record that did not come, and facts about all records
        together.
        """
        self._code.finish()
        self._programs.finish()
        self._others.vllm.finish()
        self._compilations.finish()

    def _write_beginning(self) -> None:
        with self._writer.transaction():
            self._writer.set_meta("fx_explorer", __version__)
            if self._log == STANDARD_INPUT:
                name, file = "the standard input", ""
            elif self.origin:
                name, file = self.origin
            else:
                name, file = self._log.name, str(self._log.absolute())
            target = {"name": name, "kind": "log", "file": file, "object": ""}
            self._writer.set_meta("target", {**target, "train": False, "parameters": 0})
            self._writer.set_meta("build", True)  # torch built what it wrote of

    def _write_counts(self) -> None:
        damage = self._damage
        self._writer.set_meta("environment", self._compilations.environment)
        self._writer.set_meta("skipped_records", damage.skipped)
        self._writer.set_meta(
            "log",
            {
                "records": self._kinds.total(),
                "kinds": dict(self._kinds.most_common()),
                "unknown": self._others.counted,
                "wrong_hashes": damage.wrong_hashes,
                "unread_graph_lines": self._graphs.unread_lines,
                "is_cut_off": damage.is_cut_off,
                "damaged_lines": damage.first_lines,
                "is_followed": self._is_followed,
                "lost_its_name": self._lost_its_name,
                "ranks": sorted(self._ranks),
            },
        )

    def __enter__(self) -> LogReading:
        return self

    def __exit__(self, *_: object) -> None:
        self._until_closed.close()


# Records that are decoded after all others were found.

_TELLS_OF: dict[str, tuple[Stage, ...]] = {
    **{name: (stage,) for name, (stage, _, _) in STAGE_OF.items()},
    "inductor_output_code": ("schedule", "output_code", "kernel"),
    "inductor_provenance_tracking_node_mappings": (),
    KERNEL_STACKS: (),
    "dynamo_cpp_guards_str": (),
}
"""Name of a record → the stages that it shows to have been reached."""


MOST_KEPT = 64 << 20
"""Maximum number of characters of the texts that are kept until they are decoded at once."""


class PutOff:
    """Stores the records of each compilation, to decode them later. It gets no records without a
    compilation.

    They are most of a log and most of the work, and are decoded one by one. What their mere
    presence says about a compilation is noted at once.
    """

    def __init__(
        self,
        compilations: Compilations,
        ahead: ParsingProcess | None = None,
        most_kept: int = 0,
    ) -> None:
        """``ahead`` parses the texts, of which ``most_kept`` characters are kept, and the others
        are read again.
        """
        self._compilations = compilations
        self._ahead = ahead
        self._most_kept = most_kept
        self._characters = 0

    def handles(self) -> dict[str, Callable[[Record], None]]:
        return dict.fromkeys(_TELLS_OF, self._keep)

    def _keep(self, record: Record) -> None:
        compilations = self._compilations
        if "dynamo" in _TELLS_OF[record.name]:
            compilations.graph_of_attempt(record)
        state = compilations.of(record)
        state.seen.update(_TELLS_OF[record.name])
        part = record.subgraph or compilations.parts.get(state.row.id, "")
        if self._ahead:
            self._ahead.ask(record)
        self._characters += len(record.payload)
        payload = record.payload if self._characters < self._most_kept else ""
        state.put_off.append(replace(record, payload=payload, subgraph=part))
