"""This script runs programs one after the other in this process, and prints as JSON what torch
counted and generated for each.

    python -m tests.capture.undisturbed.run HOW FOLDER [NAME …]
    python -m tests.capture.undisturbed.run each FOLDER --quick

The second runs what standard input asks for, ``{HOW: [NAME, …], …}``, each way in a child of this
process, which has imported torch for all of them; it writes ``FOLDER/HOW.jsonl``. HOW is ``bare``
(nothing of fx-explorer is imported), ``inspect``, ``build`` or ``paused``. ``--quick`` generates
code in a bare process too without building it: by means of this file's own, which share nothing
with the recorder's.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib
import inspect
import io
import json
import os
import re
import sys
import time
import tokenize
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NoReturn

import torch
import torch._dynamo
import torch._dynamo.convert_frame
import torch._inductor.compile_fx
from torch._dynamo.utils import counters
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.cpu_vec_isa import valid_vec_isa_list
from torch._inductor.fx_passes.post_grad import lazy_init
from torch._inductor.graph import GraphLowering
from torch.utils._pytree import tree_flatten

from tests.guard_latency import leave_out_guard_latency

FILES = ("tensors", "calls", "values", "operators", "sizes")


def programs() -> dict[str, Callable[[], Any]]:
    found: dict[str, Callable[[], Any]] = {}
    for file in FILES:
        module = importlib.import_module(f"tests.capture.undisturbed.{file}")
        functions = inspect.getmembers(module, inspect.isfunction)
        found |= {
            name: one
            for name, one in functions
            if one.__module__ == module.__name__ and not name.startswith("_")
        }
    return found


def main() -> None:
    how, folder, *names = (one for one in sys.argv[1:] if one != "--quick")
    warnings.simplefilter("ignore")
    if how == "each":
        in_children(json.load(sys.stdin), Path(folder))
    else:
        tell(how, Path(folder), names, sys.stdout)


def tell(how: str, folder: Path, names: list[str], out: IO[str]) -> None:
    known = programs()
    for name in names or known:
        with contextlib.redirect_stdout(io.StringIO()):
            found = observed(known[name], WAYS[how], folder / name, quick="--quick" in sys.argv)
        print(json.dumps({"program": name, **found}), flush=True, file=out)


def in_children(asked: dict[str, list[str]], folder: Path) -> None:
    """Run programs in children, one after the other. The first child that fails ends it."""
    leave_out_guard_latency()
    valid_vec_isa_list()  # asks the C++ compiler, once for all
    lazy_init()  # traces patterns, once for all
    for how, names in asked.items():
        pid = os.fork()
        if pid == 0:
            _be_the_child(how, folder, names)
        if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            sys.exit(f"{how} ended with {status}")


def _be_the_child(how: str, folder: Path, names: list[str]) -> NoReturn:
    status = 1
    try:
        (folder / how).mkdir()
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder / how / "inductor")
        with (folder / f"{how}.jsonl").open("w") as out:
            tell(how, folder / how, names, out)
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it is told and not the parent's
        traceback.print_exc()
    finally:
        os._exit(status)


def observed(
    program: Callable[[], Any],
    way: Callable[[Path], contextlib.AbstractContextManager[Any]],
    path: Path,
    *,
    quick: bool,
) -> dict[str, object]:
    """Return the observed results of one program. Codes are taken as in torch's own tests
    (torch/_inductor/utils.py, ``get_code``).
    """
    torch._dynamo.reset()
    began_s = time.process_time()
    torch._dynamo.utils.counters.clear()
    torch._dynamo.convert_frame.FRAME_COUNTER = 0
    torch._dynamo.convert_frame.FRAME_COMPILE_COUNTER.clear()
    torch.manual_seed(0)
    codes: list[str] = []
    before = GraphLowering.save_output_code
    GraphLowering.save_output_code = staticmethod(codes.append)  # type: ignore[method-assign]
    raised = ""
    outcome: Any = None
    try:
        with nothing_built() if quick and way is bare else contextlib.nullcontext(), way(path):
            try:
                outcome = program()
            except Exception as error:  # noqa: BLE001 - part of what is compared
                raised = f"{type(error).__name__}: {traceback.format_exc() if '-v' in sys.argv else error}"
    finally:
        GraphLowering.save_output_code = before  # type: ignore[method-assign]
    return {
        "counters": {
            group: _without_addresses(counts)
            for group, counts in sorted(counters.items())
            if counts
        },
        "compiles": sorted(torch._dynamo.convert_frame.FRAME_COMPILE_COUNTER.values()),
        "codes": sorted(map(without_comments, codes)),
        "outcome": [_digest(one) for one in tree_flatten(outcome)[0]],
        "cpu_s": round(time.process_time() - began_s, 2),
        "raised": _ADDRESS.sub("", raised),
    }


_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


def _without_addresses(counts: dict[str, int]) -> dict[str, int]:
    return {_ADDRESS.sub("", key): count for key, count in counts.items()}


def _digest(value: object) -> str:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        if value.is_floating_point():
            value = value.double().round(decimals=3) + 0.0
        return f"{list(value.shape)} {hashlib.sha256(str(value.tolist()).encode()).hexdigest()[:8]}"
    return repr(value)


_LAYOUT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING}


def without_comments(code: str) -> str:
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return "\n".join(token.string for token in tokens if token.type not in _LAYOUT)


# the ways


@contextlib.contextmanager
def bare(path: Path) -> Iterator[None]:
    yield
    assert not any(name.partition(".")[0] == "fx_explorer" for name in sys.modules)


@contextlib.contextmanager
def nothing_built() -> Iterator[None]:
    def no_kernel(*_: object, **__: object) -> Any:
        return lambda *_, **__: None

    real, is_inside = torch._inductor.compile_fx.compile_fx, [False]

    def eagerly(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if is_inside[0]:
            return real(module, *args, **kwargs)
        stays = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
        is_inside[0] = True
        try:
            real(module, *args, **kwargs)
        finally:
            is_inside[0] = False
        return stays.forward

    builders = {
        name: vars(AsyncCompile)[name]
        for name in ("cpp", "cpp_pybinding")
        if name in vars(AsyncCompile)
    }
    for name in builders:
        setattr(AsyncCompile, name, no_kernel)
    torch._inductor.compile_fx.compile_fx = eagerly
    at_once = torch._functorch.config._config["force_non_lazy_backward_lowering"]
    at_once.env_value_default = True  # holds on every thread
    try:
        with torch._inductor.config.patch(compile_threads=1):
            yield
    finally:
        torch._inductor.compile_fx.compile_fx = real
        for name, one in builders.items():
            setattr(AsyncCompile, name, one)


def _recorded(path: Path, *, build: bool) -> contextlib.AbstractContextManager[Any]:
    from fx_explorer import record

    return record(path.with_suffix(".fxs"), build=build)


@contextlib.contextmanager
def _paused(path: Path) -> Iterator[None]:
    """The program is let through, every graph waits, and then all are compiled: the app's first
    pause, and ``c``.
    """
    from fx_explorer.capture.recorder import recording
    from fx_explorer.capture.stepping.after_the_program import finish
    from fx_explorer.capture.stepping.gates import Gates
    from fx_explorer.capture.stepping.stepped_boundary import stepper_of
    from fx_explorer.model import CaptureRequest, Command, Notice
    from fx_explorer.session import SessionWriter

    def hear(notice: Notice) -> None:
        if notice.kind == "gate" and notice.state == "begin":
            assert gates.put(Command("quit" if notice.gate is None else "go"))

    gates = Gates("dynamo", hear)
    request = CaptureRequest("program", str(path), pause="dynamo", stay=True)
    with (
        SessionWriter(path.with_suffix(".fxs")) as writer,
        recording(writer, request, hear, gates) as state,
    ):
        yield
        stepper = stepper_of(state)
        assert stepper is not None
        finish(stepper, lambda: None)


WAYS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Any]]] = {
    "bare": bare,
    "inspect": lambda path: _recorded(path, build=False),
    "build": lambda path: _recorded(path, build=True),
    "paused": _paused,
}

if __name__ == "__main__":
    main()
