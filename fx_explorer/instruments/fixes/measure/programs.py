"""This module holds the programs that a changed program is compared with, and runs those whose code
is built (``BuiltProgram``). They are children of the worker, forked with the state it has at that
moment.

A graph that runs by PyTorch's own operators proves nothing about the kernels, where an integer
overflows and a loop is made of instructions.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from fx_explorer.instruments.fixes.measure.beyond_example import planned_calls
from fx_explorer.instruments.fixes.measure.child_program import (
    ChildProgram,
    ChildProgress,
    CountTold,
    as_on_disk,
    ignore_count,
)
from fx_explorer.instruments.fixes.measure.float64_judge import Float64Program
from fx_explorer.instruments.fixes.measure.observing import Observer
from fx_explorer.instruments.fixes.measure.uncompiled import (
    OriginalAgain,
    OriginalProgram,
    UncompiledProgram,
    read_result,
)
from fx_explorer.instruments.fixes.measure.varying import MOST_RUNS
from fx_explorer.model import CaptureRequest
from fx_explorer.program import calling, loading
from fx_explorer.program.explaining import one_line
from fx_explorer.program.exported_program import find_any_target
from fx_explorer.program.place import TargetPlace, UsersCode, users_code
from fx_explorer.program.seeds import seed
from fx_explorer.program.target import Target

if TYPE_CHECKING:
    from typing_extensions import Self


class OtherPrograms:
    """All programs of one comparison. As a context manager it ends them all with the block."""

    def __init__(self, place: TargetPlace, request: CaptureRequest) -> None:
        # that torch's files are none of the user's is found out once, and known in each of the
        # children
        UsersCode().modules()
        self.original = OriginalProgram(place, request)
        """The original, which begins at once. The others begin when ``begin`` is called."""
        self.uncompiled = UncompiledProgram(place, request, self.original)
        """The changed program without torch.compile."""
        self.built = BuiltProgram(place, request, self.original)
        """The changed program with its code built."""
        self.built_original = BuiltProgram(place, as_on_disk(request), self.original)
        """The original with its code built. It tells whether a difference in built code comes from
        the change or from Inductor.
        """
        self.original_in_float64 = Float64Program(place, as_on_disk(request), self.original)
        """The original in float64, by which the rounding of built code is judged."""
        self.changed_in_float64 = Float64Program(place, request, self.original)
        """The changed program in float64, where 16 bits do not tell whether it is the same."""
        self.again = [OriginalAgain(place, request, self.original) for _ in range(MOST_RUNS)]
        """Further runs of the original, made when a difference was found."""
        self._until = contextlib.ExitStack()

    def __enter__(self) -> Self:
        in_float64 = (self.original_in_float64, self.changed_in_float64)
        others = (self.uncompiled, self.built, self.built_original, *in_float64, *self.again)
        for program in (self.original, *others):
            self._until.enter_context(program)
        return self

    def __exit__(self, *_: object) -> None:
        self._until.close()


LONGEST_S = 200.0
"""Seconds that building and running may take, C++ compiler included."""

MOST_RECOMPILES = 64
"""Recompile limit while programs are compared. Each call with other inputs may be recompiled; after
torch's usual limit, calls would run in eager mode.
"""


class BuiltProgram(ChildProgram):
    """A program run with its code built.

    It begins when the original has ended, and runs beside the capture of the changed program.
    """

    def __init__(
        self, place: TargetPlace, request: CaptureRequest, original: OriginalProgram
    ) -> None:
        self._why_not = why_not_built(request)
        self._is_begun = False
        super().__init__(
            request,
            lambda: _built_result(
                place, request, read_result(original, "the original"), self.progress
            ),
            waits=True,
        )

    def begin(self) -> None:
        if not self._why_not:
            self._is_begun = True
            super().begin()

    @property
    def is_needed(self) -> bool:
        """Return whether it is built and run: not where the capture itself does that, or nothing
        can be built.
        """
        return not self._why_not

    def result(self, tell: CountTold = ignore_count) -> dict[str, Any]:
        """Return the observations of each call, or ``failed`` (how it failed) or ``problem`` (why
        it could not be run). ``tell`` is called with its progress.

        The result is empty where the capture itself ran all the code there is.
        """
        if self._why_not == _NOTHING_ELSE:
            return {}
        if self._why_not:
            return {"problem": self._why_not}
        if not self.wait_for(LONGEST_S, tell):
            return {"problem": f"building it took longer than {LONGEST_S:.0f} s"}
        if self.status:
            return {"failed": f"the process ended with status {self.status}"}
        return read_result(self, "the results of the built code")


_NOTHING_ELSE = "it is what was captured"


def why_not_built(request: CaptureRequest) -> str:
    """Return why the request's code is not built; empty where it can be."""
    if request.gpu:
        return f"it is for a GPU that is not here ({request.gpu.title})"
    if request.build or request.backend != "inductor":
        return _NOTHING_ELSE
    return ""


def _built_result(
    place: TargetPlace, request: CaptureRequest, before: dict[str, Any], progress: ChildProgress
) -> dict[str, Any]:
    if "problem" in before:
        return before
    loading.install_texts(request.overlay)
    problem = no_compiler()
    if problem:
        return {"problem": problem}
    with contextlib.ExitStack() as until:
        set_up(request, until)
        show_builds(progress, until)
        try:
            seed(0)
            target, train = calling.prepared(
                find_any_target(place, request, lambda activity: None), request
            )
            return _calls(target, train, place, request, before, progress)
        except Exception as error:  # noqa: BLE001 - the program may raise anything; it is reported
            return {"failed": f"it raises {one_line(error)}"}


def _calls(
    target: Target,
    train: bool,
    place: TargetPlace,
    request: CaptureRequest,
    before: dict[str, Any],
    progress: ChildProgress,
) -> dict[str, Any]:
    observer = Observer(target, train, request.train is not False, users_code(place, request))
    observer.set_state(before["state"])
    if before["is_compiled"]:
        compiled = target.callable
    else:
        compiled = calling.compile_target(target, calling.SilentJob(request))
    first, *others = planned_calls(target.arguments, before["ways"])
    seen: list[dict[str, Any] | None] = [
        observer.first(compiled, first.words, first.arguments).plain()
    ]
    for made, (call, one) in enumerate(zip(others, before["seen"][1:], strict=True), 1):
        if (
            one is None or call.compiled_anew_for
        ):  # building once more for each of these would take too long
            observer.leave_out()
            seen.append(None)
        else:
            progress.show_call(made, 1 + len(others))
            seen.append(observer.again(compiled, call).plain())
    return {"seen": seen, "names": observer.names_at_first}


def set_up(request: CaptureRequest, until: contextlib.ExitStack) -> None:
    """Apply the options of the request, make compiled code draw the random numbers that PyTorch's
    operators draw, and keep Dynamo from tracing the code that watches the program.
    """
    from fx_explorer.capture.recording.noting import our_files_skipped
    from fx_explorer.capture.torch_compat.private_names import inductor_config

    if request.settings:
        from fx_explorer.capture.option_settings import apply

        apply(request.settings)
    until.enter_context(our_files_skipped(None))
    until.enter_context(recompiling_often())
    until.enter_context(inductor_config.patch(fallback_random=True, compile_threads=1))


def show_builds(progress: ChildProgress, until: contextlib.ExitStack) -> None:
    """Let the parent see which kernel is being built, where this torch release tells it."""
    from fx_explorer.capture.inductor.kernel_builds import builds_told

    with contextlib.suppress(ImportError, AttributeError):  # a release without AsyncCompile
        until.enter_context(builds_told(progress.show_kernels))


def recompiling_often() -> contextlib.AbstractContextManager[object]:
    """Raise the recompile limit inside the block to at least ``MOST_RECOMPILES``."""
    from fx_explorer.capture.torch_compat.private_names import dynamo_config

    limit: Any = dynamo_config.recompile_limit
    return dynamo_config.patch(recompile_limit=max(limit, MOST_RECOMPILES))


def no_compiler() -> str:
    """Return why nothing can be built; empty when it can be."""
    from fx_explorer.capture.torch_compat.private_names import cpp_builder

    try:
        cpp_builder.get_cpp_compiler()
    except Exception as error:  # noqa: BLE001 - InvalidCxxCompiler; it has moved between releases
        return f"there is no C++ compiler ({one_line(error)})"
    return ""
