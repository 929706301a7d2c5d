"""This module receives what backends publish (fx_explorer/publishing.py), and records it.

Whatever was wrong with it is a Failure of the session; nothing is raised but what a user at a gate
asks for.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch

from fx_explorer import publishing
from fx_explorer.capture.backends.given import (
    KnownNodes,
    Problems,
    bounded_text,
    content_of,
    graph_links,
    line_nodes,
    lines_of,
    name_of,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import configured, patched
from fx_explorer.capture.torch_compat.private_names import dynamo_config, dynamo_utils
from fx_explorer.errors import SessionWriteError
from fx_explorer.highlight import LANGUAGES
from fx_explorer.model import (
    DIRECTIONS,
    BackendInstruction,
    BackendRun,
    Direction,
    Notice,
    PublishedStage,
)
from fx_explorer.session.bounds import shortened

_IGNORED = "ignore_logging_functions"
"""Option of torch._dynamo: functions whose calls are left out of compiled code."""


@contextlib.contextmanager
def publish_hook(recording: Recording) -> Iterator[None]:
    """Record publications inside the block. In code that Dynamo traces, publishing is left out."""
    with publishing.with_listener(_Listener(recording)), _left_out_of_traces():
        yield


@contextlib.contextmanager
def _left_out_of_traces() -> Iterator[None]:
    """Leave our functions' calls out of Dynamo's traces. In a release without that option they are
    graph breaks, which the session shows like any other.
    """
    config = dynamo_config
    if not hasattr(config, _IGNORED):
        yield
        return
    before = getattr(config, _IGNORED)
    ours = {publishing.publish, publishing.publish_run, publishing.is_looked_at}
    with logged_as({_IGNORED: before}), configured(config, {_IGNORED: before | ours}):
        yield


MOST_STAGES = 1_000
"""Maximum number of stages of one compilation that are stored. A backend that publishes while it
runs would have no end of them.
"""


class _Listener:
    """Receives publications on any thread."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def stage(self, name: Any, content: Any, language: Any, links: Any, direction: Any) -> None:
        recording = self._recording
        of = Problems("a published stage")
        shown, where = "", recording.here.direction or recording.here.running_direction
        with (
            recording.noting("a published stage", "backend"),
            recording.here.publishing() as is_outermost,
        ):
            shown = name_of(name, of, "stage")
            of.of = f"stage {shown!r}"
            where = _direction(direction, of) or where
            with recording.within(self._compilation()):
                self._add(shown, content, language, links, where, of)
                self._report(of)
        if shown and is_outermost:
            recording.boundary.published(shown, where)

    def run(self, entry: Any, instructions: Any, call: Any) -> None:
        recording = self._recording
        of = Problems("a published run")
        with recording.noting("a run of a backend's", "backend"), recording.here.publishing():
            name = name_of(entry, of, "entry")
            of.of = f"a run of {name!r}"
            with recording.within(self._compilation()):
                add_run(recording, name, instructions, call, of)
                self._report(of)

    def _compilation(self) -> str:
        """Return the compilation that publishes: the one of this thread, else the one of the
        compiled function that runs in it, else the last one that torch worked on.
        """
        recording = self._recording
        return (
            recording.compilation_name()
            or recording.here.running
            or recording.latest()
            or recording.published.latest
        )

    def _add(
        self, name: str, content: Any, language: Any, links: Any, direction: Direction, of: Problems
    ) -> None:
        recording = self._recording
        stages = recording.published.stages.setdefault(recording.variant_id(), [])
        if len(stages) >= MOST_STAGES:
            of.of = "publishing"
            of.add(
                f"the first {MOST_STAGES:,} stages of a compilation are kept, later ones are "
                "dropped"
            )
            return
        shown = content_of(content, of)
        if shown is None:
            return
        graph = artifact = 0
        if isinstance(shown, str):
            artifact = self._add_text(name, shown, language, links, direction, of)
        else:
            graph = _add_graph(recording, name, shown, direction, of)
            if links is not None:
                of.add("links belong to a text; those of a graph are found through its nodes")
        if not graph and not artifact:
            return
        row = PublishedStage(
            0,
            recording.variant_id(),
            len(stages),
            name,
            direction,
            graph,
            artifact,
            recording.elapsed(),
        )
        stages.append(row)
        recording.published.latest = recording.compilation_name()
        recording.writer.add(row)
        recording.notify(
            Notice("artifact", stage="backend", compilation=recording.compilation_name())
        )

    def _add_text(
        self, name: str, text: str, language: Any, links: Any, direction: Direction, of: Problems
    ) -> int:
        recording = self._recording
        if isinstance(language, str) and language in LANGUAGES:
            coloured = language
        else:
            coloured = "text"
        if coloured != language:
            unknown = name_of(language, of, "", "language")
            recording.note_of_backend(
                f"the language {unknown!r} is not known here: its text is shown without colours",
                0,
                "remark",
            )
        body = bounded_text(text, of)
        lines = lines_of(links, of)  # before the transaction: it may run the backend's own code
        with recording.writer.transaction():
            title = f"{name} · {direction}" if direction else name
            artifact = recording.add_artifact(
                "published",
                "backend",
                body.text,
                title=title,
                language=coloured,
                direction=direction,
            )
            known = KnownNodes(recording.segment(), direction)
            recording.writer.add_all(line_nodes(artifact, lines, body.whole_lines, known, of))
        return artifact

    def _report(self, of: Problems) -> None:
        """Store each problem once."""
        for sentence in of.sentences:
            self._recording.note_of_backend(f"{of.of}: {sentence}", self._recording.variant_id())


def _add_graph(
    recording: Recording, name: str, module: Any, direction: Direction, of: Problems
) -> int:
    """Store a graph with its links; 0 where it is too damaged for that, which is noted."""
    segment = recording.segment()
    try:
        with recording.writer.transaction():
            recorded = recording.add_graph(module, "backend", direction, label=name)
            recording.writer.add_all(graph_links(recorded, segment, direction))
    except (SessionWriteError, KeyboardInterrupt):
        raise
    # A damaged graph, or metadata of the backend's that raises.
    except BaseException as error:  # noqa: BLE001
        of.tried("its graph", partial(_raise, error), None)
        return 0
    segment.published.append(recorded)
    return recorded.graph.id


def _raise(error: BaseException) -> None:
    raise error


def _direction(given: Any, of: Problems) -> Direction:
    if isinstance(given, str) and given in DIRECTIONS:
        return given
    of.add(f"its direction is none of {', '.join(filter(None, DIRECTIONS))}")
    return ""


# The options of Dynamo that torch writes into the metrics of each compilation.

_LOGGED = "_get_dynamo_config_for_logging"


@contextlib.contextmanager
def logged_as(values: Mapping[str, object]) -> Iterator[None]:
    """Make torch log these values of options inside the block, instead of those of an unrecorded
    run that are in force.

    Hook: ``_get_dynamo_config_for_logging`` (torch/_dynamo/utils.py). It sorts every option that is
    a set and turns all of them into JSON. torch 2.11 does so with ``ignore_logging_functions``,
    whose members are functions: without this the metrics of every compilation are lost, and with
    them how it ended.
    """
    if not hasattr(dynamo_utils, _LOGGED):
        yield
        return

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def options_for_the_log(*args: Any, **kwargs: Any) -> Any:
            with dynamo_config.patch(dict(values)):
                return original(*args, **kwargs)

        return options_for_the_log

    with patched(dynamo_utils, _LOGGED, make):
        yield


# Runs of a backend's programs, as ``fx_explorer.publish_run`` gets them, as rows.

MOST_RUNS = 100
"""Maximum number of runs of one compiled function that are stored. A training loop has one for each
step.
"""

MOST_INSTRUCTIONS = 20_000
"""Maximum number of instructions of one run that are stored."""

MAX_SHAPES = 1_000

_PROGRAM = "program"
"""Name of the published stage whose lines a run refers to."""


def add_run(recording: Recording, entry: str, instructions: Any, call: Any, of: Problems) -> None:
    """Store one run. Parts that cannot be read are recorded as problems; the others are stored."""
    compilation = recording.variant_id()
    program, direction = _program(recording, entry)
    recording.published.runs[compilation, entry, direction] += 1
    counted = recording.published.runs[compilation, entry, direction]
    number = _call_number(call, counted, of)
    if counted > MOST_RUNS:
        of.add(f"its first {MOST_RUNS} runs are kept, later ones are dropped")
        return
    none: list[Any] = []
    read = of.tried(
        "its instructions",
        lambda: list(itertools.islice(iter(instructions), MOST_INSTRUCTIONS + 1)),
        none,
    )
    if len(read) > MOST_INSTRUCTIONS:
        of.add(
            f"it has more than {MOST_INSTRUCTIONS:,} instructions: only these first ones are kept"
        )
    known = KnownNodes(recording.segment(), direction)
    # Read before the transaction: what is in it may be of the backend's own classes.
    made = list(_instructions(read[:MOST_INSTRUCTIONS], known, of))
    with recording.writer.transaction():
        run = recording.writer.add(
            BackendRun(
                0, compilation, entry, direction, number, program, start_s=recording.elapsed()
            )
        )
        rows = [BackendInstruction(0, run, at, *fields) for at, fields in enumerate(made)]
        recording.writer.add_all(rows)
    recording.saw("backend")


def _call_number(call: Any, counted: int, of: Problems) -> int:
    if call is None:
        return counted
    if isinstance(call, bool) or not isinstance(call, int) or not 0 < call < 2**31:
        of.add("its call number is not a number from 1, so its runs are counted instead")
        return counted
    return call


def _program(recording: Recording, entry: str) -> tuple[int, Direction]:
    """Return the text of the program that a compiled function runs, and its direction. It is the
    last program that the compilation published in the direction that runs in this thread (else in
    the function's); 0 when the compilation published none.
    """
    running = recording.here.running_direction
    stages = recording.published.stages.get(recording.variant_id(), [])
    programs = [stage for stage in stages if stage.name == _PROGRAM and stage.artifact]
    wanted = [
        stage for stage in programs if stage.direction and stage.direction in (running or entry)
    ]
    candidates = wanted or programs
    if not candidates:
        return 0, running
    last = candidates[-1]
    return last.artifact, running or last.direction


Fields = tuple[str, str, float, bool, int, int]
"""The fields of a BackendInstruction from its name on."""


def _instructions(given: list[Any], known: KnownNodes, of: Problems) -> Iterator[Fields]:
    for instruction in given:
        if not isinstance(instruction, Mapping):
            of.add(f"an instruction is of type {type(instruction).__name__}, not a dictionary")
            continue
        read = of.tried("an instruction", partial(_instruction, instruction, known, of), None)
        if read is not None:
            yield read


def _instruction(given: Mapping[str, Any], known: KnownNodes, of: Problems) -> Fields:
    return (
        name_of(given.get("name", "instruction"), of, "instruction"),
        _shapes(given.get("shapes", "")),
        _seconds(given.get("seconds", 0.0), of),
        bool(given.get("fell_back", False)),
        _line(given.get("line"), of),
        _node(given.get("node"), known, of),
    )


def _shapes(given: Any) -> str:
    """Return ``512x512, 512`` for ``[(512, 512), (512,)]``."""
    if isinstance(given, (tuple, list)):
        parts = itertools.islice(given, 100)
        nested = [isinstance(part, (tuple, list, torch.Size)) for part in given[:100]]
        if any(nested):
            given = ", ".join("x".join(map(str, part)) or "scalar" for part in parts)
        else:
            given = "x".join(map(str, parts))
    return shortened(" ".join(str(given).split()), MAX_SHAPES)


def _seconds(given: Any, of: Problems) -> float:
    seconds = float(given)
    if not math.isfinite(seconds) or seconds < 0:
        of.add("the seconds of an instruction are not a time")
        return 0.0
    return seconds


def _line(given: Any, of: Problems) -> int:
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given < 50_000_000:
        of.add("the line of an instruction is not a line number from 1")
        return 0
    return given


def _node(given: Any, known: KnownNodes, of: Problems) -> int:
    if given is None:
        return 0
    if isinstance(given, torch.fx.Node):
        row = known.of_node(given) or known.of_name(given.name)
    else:
        row = known.of_name(str(given))
    if not row:
        of.add(
            f"an instruction names {str(given)[:200]!r}, which is not a node of the graph that "
            "the backend got"
        )
    return row
