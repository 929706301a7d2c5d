"""The recording hears what backends publish (fx_explorer/publishing.py), and writes it down.

Whatever was wrong with it is a Failure of the session; nothing is raised but what a user at a gate
asks for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
import torch._dynamo.config

from fx_explorer import publishing
from fx_explorer.capture.backends.given import Problems, bounded_text, content_of, lines_of, name_of
from fx_explorer.capture.backends.published_links import KnownNodes, graph_links, line_nodes
from fx_explorer.capture.backends.runs import add_run
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.logged_options import logged_as
from fx_explorer.capture.torch_compat.patching import configured
from fx_explorer.errors import SessionWriteError
from fx_explorer.lexing import LANGUAGES
from fx_explorer.model import DIRECTIONS, Direction, Notice, PublishedStage

_IGNORED = "ignore_logging_functions"
"""Option of torch._dynamo: functions whose calls in compiled code are left out of it."""


@contextlib.contextmanager
def publish_hook(recording: Recording) -> Iterator[None]:
    """Record what is published inside the block. In code that Dynamo traces, publishing is left
    out.
    """
    with publishing.heard_by(_Listener(recording)), _left_out_of_traces():
        yield


@contextlib.contextmanager
def _left_out_of_traces() -> Iterator[None]:
    """Leave calls of ours out of what Dynamo traces. In a release that cannot do that they are graph
    breaks, which the session shows like any other.
    """
    config = torch._dynamo.config
    if not hasattr(config, _IGNORED):
        yield
        return
    before = getattr(config, _IGNORED)
    ours = {publishing.publish, publishing.publish_run, publishing.is_looked_at}
    with logged_as({_IGNORED: before}), configured(config, {_IGNORED: before | ours}):
        yield


MOST_STAGES = 1_000
"""Stages of one compilation that are kept: one that publishes while it runs would have them without
end.
"""


class _Listener:
    """Hears what is published on any thread."""

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
                self._tell(of)
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
                self._tell(of)

    def _compilation(self) -> str:
        """Return the compilation that publishes: the one of this thread, that of the entry that runs
        in it, else the last one that torch is at, or was.
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
                f"the first {MOST_STAGES:,} stages of a compilation are kept, and later ones are left out"
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
                of.add("links belong to a text: those of a graph are found by its nodes")
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
        coloured = language if isinstance(language, str) and language in LANGUAGES else "text"
        if coloured != language:
            unknown = name_of(language, of, "", "language")
            recording.tell_of_backend(
                f"the language {unknown!r} has no colours here: it is shown plain", 0, "remark"
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

    def _tell(self, of: Problems) -> None:
        """Store what was wrong, each thing once."""
        for sentence in of.found:
            self._recording.tell_of_backend(f"{of.of}: {sentence}", self._recording.variant_id())


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
    except BaseException as error:  # noqa: BLE001 - a damaged graph, or metadata of the backend's that raises
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
