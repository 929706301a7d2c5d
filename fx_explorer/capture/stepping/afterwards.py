"""When the program has ended: what was deferred is compiled, and every stage can be taken up again."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inspecting import backward_at_once
from fx_explorer.capture.recording.error_lines import one_line
from fx_explorer.capture.recording.unseen import patched_in_programs
from fx_explorer.capture.stepping.branching import branch, first_graph
from fx_explorer.capture.stepping.following import follow, taking
from fx_explorer.capture.stepping.gates import Aborted, AnotherWay, Left, Reached
from fx_explorer.capture.stepping.late_guards import late_guards
from fx_explorer.capture.stepping.measuring import measure
from fx_explorer.capture.stepping.orders import (
    QUESTIONS,
    allow_for_all,
    answer,
    cut_of,
    obey_for_all,
    refuse_dynamic,
    set_for_all,
)
from fx_explorer.capture.stepping.steering import Steering
from fx_explorer.capture.stepping.variants.ways import KeptSegment, Way, shared_keys
from fx_explorer.errors import UsageError
from fx_explorer.model import GATES, Changes, Command, Notice


def finish(steering: Steering, at_hand: Callable[[], None]) -> None:
    """Compile what was deferred, then wait for the client until it lets go. ``at_hand`` hears when all is compiled."""
    if steering.waits:
        steering.defers = False
        _compile_deferred(steering)
    steering.defers = False
    at_hand()
    if steering.recording.request.stay:
        steering.gates.attend(lambda command: _obey(steering, command))


@contextlib.contextmanager
def deferred_until_reset(steering: Steering) -> Iterator[None]:
    """``torch._dynamo.reset`` in the program ends the wait of what was deferred so far: torch forgets the code that these
    graphs are for, and gives the names of its frames anew."""

    def make(original: Callable[[], None]) -> Callable[[], None]:
        @functools.wraps(original)
        def reset() -> None:
            if steering.waits:
                steering.defers = False
                try:
                    _compile_deferred(steering)
                finally:
                    steering.defers = True
            original()

        return reset

    with patched_in_programs(torch._dynamo, "reset", make):
        yield


def _compile_deferred(steering: Steering) -> None:
    try:
        if steering.gates.stops_at("dynamo"):
            _wait_for_all(steering)
        compile_kept(steering)
    except Left:
        return


def _wait_for_all(steering: Steering) -> None:
    """After Dynamo of every graph. Another way taken there is the one in use; the other graphs follow it."""
    obey, allow = functools.partial(obey_for_all, steering), functools.partial(allow_for_all, steering)
    try:
        steering.gates.wait_for_all("dynamo", obey, allow)
    except AnotherWay as other:
        kept = steering.kept_of(other.command.compilation)
        steering.gates.pass_by("dynamo")
        steering.rows.replace_first(kept)
        taken = again(steering, other.command)
        if taken.row.status == "ok":
            steering.rows.use(kept, taken)


def compile_kept(steering: Steering) -> None:
    """Compile every graph that waits, in its turn; one that was left at a milestone goes on from there."""
    for kept in list(steering.kept.values()):
        way = kept.ways[0]
        if way.is_finished:
            continue
        way.replays = shared_keys(way, GATES[-1], "")
        with contextlib.suppress(Reached):
            _compile_outside(steering, kept, way, first_graph(steering, kept, way))


def _obey(steering: Steering, command: Command) -> str:
    """When the program has ended and everything is compiled."""
    refuse_dynamic(command)
    if command.kind == "set":
        return set_for_all(steering, command, None)
    if command.kind == "measure":
        return measure(steering, command.compilation)
    if command.kind in QUESTIONS:
        return answer(steering.recording, command)
    way = again(steering, command)
    if way.row.status == "failed":
        raise UsageError(f"[{way.row.name}] failed: {way.row.error}")
    if way.row.status == "left":
        return f"[{way.row.name}] was left: {way.row.error}"
    took = f"[{way.row.name}] took {way.row.duration_s:.2f} s; {way.row.saved_s:.2f} s were not spent again"
    return "; ".join((took, *cut_of(steering.kept_of(way.row.name), way, command)))


def again(steering: Steering, command: Command) -> Way:
    """Take another way; it says how that ended. Raises UsageError before it begins."""
    kept = steering.kept_of(command.compilation)
    way, graph = branch(steering, kept, command, kept.ways[0])
    try:
        _compile_outside(steering, kept, way, graph)
    except Aborted:  # at a gate of its own, and recorded with it
        pass
    except BaseException:
        steering.rows.leave(way, "the user stopped it")
        raise
    return way


def _compile_outside(steering: Steering, kept: KeptSegment, way: Way, graph: torch.fx.GraphModule) -> None:
    def compile_here(module: torch.fx.GraphModule) -> Any:
        made = steering.compiler(kept)(module, kept.inputs)
        if not callable(made):  # Dynamo, too, asks for no more
            raise UsageError(f"the backend returned {one_line(repr(made))}, which cannot be called")
        return made

    try:
        with steering.outside(), steering.as_current(kept, way), steering.as_in_dynamo(kept):
            with late_guards(steering.recording, kept, way), backward_at_once():
                taking(steering, kept, way, lambda: follow(steering, kept, way, graph, compile_here))
    except Exception as error:  # noqa: BLE001 - recorded with the way by taking, and told
        text = f"[{way.row.name}] failed: {one_line(str(error))}"
        if way is kept.ways[0] and way.changes == Changes() and not torch._dynamo.config.suppress_errors:
            text = f"{text}; {NOT_RAISED}"
        steering.recording.notify(Notice("note", text=text))


NOT_RAISED = "the program has not had this exception, since it went on while the graph waited; without a pause it does"
