"""Holding a changed script against the one on disk: the original runs first, in a child process and without torch.compile.

Compared is what two runs of a script have in common: how it ends, what it prints, what the outermost compiled calls return, and
the tensors and modules among its globals when it has ended. Torch is imported by the script: until then nothing here needs it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fx_explorer.model import CaptureRequest, Verification
from fx_explorer.worker import ending, loading
from fx_explorer.worker.on_import import after_import
from fx_explorer.worker.original import OriginalProcess
from fx_explorer.worker.place import Place
from fx_explorer.worker.printed import printed

if TYPE_CHECKING:
    from fx_explorer.worker.compiled_calls import CompiledCalls

OWN_INPUTS = "the script's own inputs"


class ScriptRun:
    """One run of the script, seen from outside."""

    def __init__(self) -> None:
        self._calls: CompiledCalls | None = None
        self._printed: list[str] = []
        self._status = 0
        self._raised = ""

    def begin(self, until: contextlib.ExitStack) -> None:
        """When torch has been imported."""
        from fx_explorer.worker.compiled_calls import CompiledCalls
        from fx_explorer.worker.observing import seed

        seed(0)
        self._calls = CompiledCalls()
        until.enter_context(self._calls.watched())

    def run(self, script: Callable[[], None]) -> None:
        """What it raises goes on to the caller."""
        try:
            with printed(self._printed):
                script()
        except SystemExit as leaving:
            self._status = ending.status(leaving)
            raise
        except Exception as error:
            self._raised = type(error).__name__
            raise

    def plain(self) -> dict[str, Any]:
        calls = self._calls
        return {
            "call": OWN_INPUTS,
            "values": {"exit status": {"the exit status": self._status}, **_globals()},
            "printed": self._printed,
            "raised": self._raised,
            "returned": calls.returned if calls else {},
            "counts": dict(calls.counts) if calls else {},
            "problem": calls.problem if calls else "",
        }


class OriginalScript(OriginalProcess):
    """The script as its file has it. To be waited for: two runs at a time could be in each other's way, in files say."""

    def __init__(self, place: Place, request: CaptureRequest) -> None:
        super().__init__(request, lambda: _original_result(place, request))

    def compared_with(self, changed: ScriptRun) -> Verification:
        import torch

        from fx_explorer.worker.verifying import nothing_compared

        if self.status:
            return nothing_compared(f"the original script ended its process with status {self.status}")
        try:
            before = torch.load(self.file, weights_only=True)
        except Exception as error:  # noqa: BLE001 - ours; the changed script must not be blamed
            return nothing_compared(f"what the original script gave cannot be read: {error}")
        return compared(before, changed.plain())


def _original_result(place: Place, request: CaptureRequest) -> dict[str, Any]:
    """What it prints is kept."""
    seen = ScriptRun()
    with contextlib.ExitStack() as until:
        after_import("torch", lambda: _run_eagerly(seen, until))
        assert place.file is not None
        with contextlib.suppress(Exception, SystemExit):
            seen.run(lambda: loading.run_script(place.file, request.target, request.arguments))  # type: ignore[arg-type]
    import torch  # noqa: F401 - imported where the changed script is looked at, too, and globals are looked for with it

    return seen.plain()


def _run_eagerly(seen: ScriptRun, until: contextlib.ExitStack) -> None:
    import torch

    torch.compiler.set_stance("force_eager")
    seen.begin(until)


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Verification:
    """Calls of a function that only one of the two has are left out, and named."""
    from fx_explorer.worker.comparing import Comparison

    comparison = Comparison()
    both = {name for name in before["counts"] if name in after["counts"]}
    one, other = (dict(run, values={**run["values"], "output": dict(_outputs(run, both))}) for run in (before, after))
    one["values"]["called"], other["values"]["called"] = (
        {f"the number of calls of {name}": run["counts"][name] for name in both} for run in (before, after)
    )
    comparison.add(one, other)
    comparison.not_compared += _left_out(before, after, both)
    return comparison.row(())


def _outputs(run: Mapping[str, Any], functions: set[str]) -> Iterator[tuple[str, Any]]:
    for name, values in run["returned"].items():
        if name in functions:
            yield from values.items()


def _left_out(before: Mapping[str, Any], after: Mapping[str, Any], both: set[str]) -> Iterator[str]:
    from fx_explorer.worker.compiled_calls import MOST_CALLS

    if before["problem"] or after["problem"]:
        yield f"what compiled calls return ({before['problem'] or after['problem']})"
    for run, words in ((before, "the original"), (after, "the changed script")):
        alone = ", ".join(name for name in run["counts"] if name not in both)
        if alone:
            yield f"calls of {alone}, which only {words} has compiled"
    called = sum(before["counts"].values())
    if called > MOST_CALLS:
        yield f"compiled calls after the first {MOST_CALLS} of {called}"


def _globals() -> dict[str, dict[str, Any]]:
    """Kind → name → value of what the script leaves behind; numbers are not among it, which may be times."""
    if "torch" not in sys.modules:
        return {}
    import torch

    from fx_explorer.worker.observing import own

    found: dict[str, dict[str, Any]] = {"state": {}, "gradient": {}, "global": {}}
    for name, value in list(vars(sys.modules["__main__"]).items()):
        if isinstance(value, torch.Tensor):
            found["global"][f"global {name}"] = own(value)
        elif isinstance(value, torch.nn.Module):
            for path, tensor in [*value.named_parameters(name), *value.named_buffers(name)]:
                found["state"][path] = own(tensor)
                if tensor.grad is not None:
                    found["gradient"][f"the gradient of {path}"] = own(tensor.grad)
    return found
