"""This module is a process like the worker that measures one cell of a bench: it calls the program
until its times are stable, and then makes a round of calls whenever it is asked to.

Its first line of input is a ``BenchTask``; those after it are ``round``, ``peak``, ``step``, which
is the peak of a call before which there are no gradients, ``held``, which is what such a call holds
when it holds most, and ``compare``, which compares results once more: with TF32 switched off, or
with PyTorch's own random numbers. It answers with ``BenchNews`` lines, and ends when its input
does.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fx_explorer.errors import FxExplorerError, TargetError
from fx_explorer.model import BenchNews, BenchTask, CellState
from fx_explorer.program.explaining import (
    one_line,
    ran_out_of_memory,
    target_error_of,
    whole_text,
    without_our_frames,
)
from fx_explorer.program.place import locate
from fx_explorer.program.usable_torch import import_compiler, import_torch

if TYPE_CHECKING:
    from fx_explorer.instruments.bench.measure.calls import Caller

Send = Callable[[BenchNews], None]

IS_A_SCRIPT = (
    "{shown} runs as a script, but this command calls one model or function repeatedly. Name the "
    "object: {shown}:OBJECT --inputs 'torch.randn(2, 8)', or set example_inputs at the top level "
    "of the file. To run the whole script with compiled code: fx-explorer capture {shown} --build"
)


def news_sender(notices: int) -> Send:
    """Return a function that writes news to a pipe, whole: one write may take a part of it."""

    def send(news: BenchNews) -> None:
        line = news.to_json().encode() + b"\n"
        while line:
            line = line[os.write(notices, line) :]

    return send


def main(notices: int, commands: int) -> None:
    send = news_sender(notices)
    with os.fdopen(commands, encoding="utf-8") as lines:
        task = BenchTask.from_json(lines.readline())
        try:
            cell = _ready(task, send)
            for line in lines:
                send(cell.answer(line.strip()))
        except BaseException as error:  # noqa: BLE001
            # whatever the program raises is told, and the process ends
            send(news_of_failure(error))
    os._exit(0)  # no thread of the program keeps it, and torch takes a second to release a GPU


class ReadyCell:
    """A cell that has been called until it was stable."""

    def __init__(
        self,
        caller: Caller,
        round_s: float,
        last_s: float,
        is_gpu: bool,
        compare_again: Callable[[], dict[str, Any]],
    ) -> None:
        """``compare_again`` compares the results in another way, and returns fields of the cell."""
        self._caller = caller
        self._compare_again = compare_again
        self._round_s = round_s
        self._last_s = last_s
        self._is_gpu = is_gpu

    def answer(self, command: str) -> BenchNews:
        """Carry out a command. Raises whatever the program raises."""
        from fx_explorer.instruments.bench.measure import call_timing

        call = self._caller.call
        if command == "peak":
            return BenchNews("peak", peak_bytes=call_timing.peak_bytes(call, self._is_gpu))
        if command == "work":
            from fx_explorer.instruments.bench.measure.call_timing import kernel_seconds

            return BenchNews("work", work_s=kernel_seconds(call, self._is_gpu, self._last_s))
        if command == "step":
            self._caller.clear()
            return BenchNews("peak", peak_bytes=call_timing.peak_bytes(call, self._is_gpu))
        if command == "compare":
            return BenchNews("compared", cell=self._compare_again())
        if command == "held":
            from fx_explorer.instruments.bench.measure.call_timing import held_by_line

            self._caller.clear()
            return BenchNews("held", held=tuple(held_by_line(call)))
        if self._is_gpu:
            return self._round()
        from fx_explorer.instruments.bench.measure.call_timing import sharing_s

        before_s = sharing_s()
        measured = self._round()
        return replace(measured, sharing_s=max(before_s, sharing_s()))

    def _round(self) -> BenchNews:
        from fx_explorer.instruments.bench.measure import call_timing

        self._last_s, calls = call_timing.round_of_calls(
            self._caller.call, self._round_s, self._last_s, self._is_gpu
        )
        return BenchNews("round", call_s=self._last_s, calls=calls)


def _ready(task: BenchTask, send: Send) -> ReadyCell:
    """Build the program, call it until it is stable, and send the result. Raises TargetError for a
    target that cannot be measured, and whatever the program raises.
    """

    def say(text: str) -> None:
        send(BenchNews("doing", text=text))

    say("importing torch")
    import_torch()
    if task.is_compiled:
        say("importing torch's compiler")  # so that it is no part of the first call
        import_compiler()
    import torch

    from fx_explorer.instruments.bench.measure import agreement, call_timing, calls
    from fx_explorer.instruments.bench.measure.calls import uncompiled

    if task.threads:
        torch.set_num_threads(task.threads)
    caller, parts = caller_of(task, say)
    is_gpu = calls.is_on_gpu(caller)
    state = calls.NetworkState(caller.target.network)
    if not task.is_compiled:
        say("calling it in eager mode and in float64, as references")
        agreement.reference_of(caller, state).save(task.reference)
    begins_with, on_copies = agreement.content(caller), caller.with_own_inputs()
    calls.seed()
    doing = "compiling it" if task.is_compiled else "calling it in eager mode"
    say(doing)
    output, took_s = call_timing.timed(on_copies.call, is_gpu)
    # Before another call: gradients are those of the last one.
    first = on_copies.results(output, state) if task.is_compiled else {}
    del output
    say("warming up")
    warm_up = call_timing.warmed_up(took_s, caller.call, is_gpu)
    counted = _counted()
    agreed: dict[str, Any] = {}
    more = ""
    if task.is_compiled:
        say("comparing its results")
        second = calls.observed(caller.with_other_values(), state)
        reference = agreement.Reference.load(task.reference)
        agreed = agreement.agreement(reference, [first, second], begins_with)
        more = agreement.next_comparison(reference, agreed)
        if agreed["agreement"] == "differs":
            plain = replace(caller, function=uncompiled(caller.target.callable))
            other_path = agreement.path_while_compiling(reference, [first, second], plain, state)
            words = (str(agreed["agreement_words"]), other_path)
            agreed["agreement_words"] = "; ".join(filter(None, words))
        del reference, second
    del first

    def compare_again() -> dict[str, Any]:
        reference = agreement.Reference.load(task.reference)
        return agreement.agreement_otherwise(reference, caller, state, agreed)

    device = torch.cuda.get_device_name() if is_gpu else "cpu"
    fields = agreed | {
        **counted,
        "inputs": caller.target.arguments.describe(),
        "trains": caller.trains,
        "first_call_s": warm_up.first_call_s,
        "warm_up_s": warm_up.took_s,
        "warm_up_calls": warm_up.calls,
        "is_unstable": warm_up.is_unstable,
        "device": device,
        "clock": call_timing.clock_of(is_gpu),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "notes": parts,
    }
    send(BenchNews("ready", cell=fields, could_say_more=more))
    return ReadyCell(caller, task.round_s, warm_up.last_s, is_gpu, compare_again)


def caller_of(task: BenchTask, say: Callable[[str], None]) -> tuple[Caller, list[str]]:
    """Build the target, and return its caller with notes for the user."""
    from fx_explorer.capture.compiled_inside import is_compiled
    from fx_explorer.instruments.bench.measure.calls import (
        Caller,
        compiled,
        seed,
        uncompiled,
        with_sizes,
    )
    from fx_explorer.program.calling import on_device, prepare_training
    from fx_explorer.program.exported_program import find_any_target

    request = task.request
    place = locate(request)
    if place.is_script:
        raise TargetError(IS_A_SCRIPT.format(shown=place.shown))
    _apply(request.settings)
    _set_stance(task)
    seed()
    target = find_any_target(place, request, say)
    notes = []
    if is_compiled(target.callable):
        notes.append(
            f"the target itself compiles {target.name}: the object that it gave to torch.compile "
            "is measured"
        )
    target, parts = with_sizes(on_device(target, request.device), task.sizes)
    target, trains = prepare_training(target, request.train)
    plain = uncompiled(target.callable)
    function = compiled(plain, request) if task.is_compiled else plain
    return Caller(target, function, trains, has_grad=request.train is not False), [*parts, *notes]


def _apply(settings: dict[str, Any]) -> None:
    if settings:
        from fx_explorer.capture.option_settings import apply

        apply(settings)  # for good: the process ends with this cell


def _set_stance(task: BenchTask) -> None:
    """Set the requested stance of torch.compile."""
    import torch

    from fx_explorer.program.calling import check_stance

    stance = task.request.stance_wanted if task.is_compiled else ""
    check_stance(stance)
    if stance:
        torch.compiler.set_stance(stance)


def _counted() -> dict[str, int]:
    """Return counts of what torch has compiled so far (torch/_dynamo/utils.py)."""
    from fx_explorer.capture.torch_compat.private_names import counters, get_compilation_metrics

    names = {str(metrics.compile_id) for metrics in get_compilation_metrics()}
    recompiles = [name for name in names if not name.rpartition("/")[2].startswith("0")]
    return {
        "graphs": counters["stats"]["unique_graphs"],
        "graph_breaks": sum(counters["graph_break"].values()),
        "recompiles": len(recompiles),
    }


def news_of_failure(error: BaseException) -> BenchNews:
    error = target_error_of(error)
    is_ours = isinstance(error, FxExplorerError)
    words = str(error) if is_ours else one_line(error)
    error = error.with_traceback(without_our_frames(error.__traceback__))
    text = "" if is_ours else whole_text(error)
    state: CellState = "out_of_memory" if ran_out_of_memory(error) else "failed"
    return BenchNews("failed", words, is_ours, text, {"state": state, "message": words})
