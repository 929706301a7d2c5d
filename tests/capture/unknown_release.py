"""This module imitates a release of torch that lacks one name, for fx-explorer only: torch itself
still has it.

``python -m tests.capture.unknown_release [--every N] [NAME …]`` hides every name of torch's that a
capture replaces or imports, one after the other, and captures a small program each time; with
names, those, and every Nth where that is given. A line for each says whether the program gave its
result, and whether the session names what is missing. All of them take an hour on two processors.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

from fx_explorer.capture.torch_compat.private_names import SUBMODULES

PACKAGE = Path(__file__).parents[2] / "fx_explorer"
TABLE_MODULE = "fx_explorer.capture.torch_compat.private_names"

LIMIT_S = 300

PROGRAM = """
import json, sys
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

def step(x):
    y = model(x)
    torch._dynamo.graph_break()
    return y.square().sum()

compiled = torch.compile(step)
results = []
for rows in (3, 5):
    loss = compiled(torch.ones(rows, 4))
    loss.backward()
    results += [round(loss.item(), 5), round(model[0].weight.grad.sum().item(), 5)]
open(sys.argv[1], "w").write(json.dumps(results))
"""


NOTHING_LACKS = {
    "torch._dynamo.utils._get_dynamo_config_for_logging": (
        "without it torch logs no options, and ours cannot be among them"
    ),
    "torch._dynamo.variables.dicts.SideEffectsProxyDict": (
        "without it Dynamo keeps what a program changes in SideEffects alone"
    ),
    "torch._dynamo.config.run_gc_after_compile": (
        "without it torch does not look for garbage after each function that it compiles"
    ),
}
"""Names that some releases lack without any effect on a session."""

BUILDERS = tuple(
    f"torch._inductor.async_compile.AsyncCompile.{name}"
    for name in ("cu", "halide", "metal", "multi", "nv", "pallas", "rocm", "size", "xpu")
)
"""Functions that build kernels of one kind. A release has those of the kinds that it can build."""


@dataclass(frozen=True, order=True, slots=True)
class TorchName:
    module: str
    name: str
    """An attribute of the module, or of a class in it: ``OutputGraph.call_user_compiler``. Of a
    package also one of its modules: ``config`` of ``torch._functorch``.
    """

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def is_module(self) -> bool:
        return str(self) in sys.modules

    @classmethod
    def parse(cls, text: str) -> TorchName:
        module = text.rpartition(".")[0]
        while module not in sys.modules:
            module = module.rpartition(".")[0]
        return cls(module, text.removeprefix(f"{module}."))


@dataclass(frozen=True, slots=True)
class Seen:
    """Seen is the result of a capture in which a name was hidden."""

    name: TorchName
    exit_status: int
    results: list[float] | None
    """The values that the program computed; None where it did not come to its end."""
    was_asked_for: bool
    told: tuple[str, ...]
    """The sentences of the session on what could not be recorded."""

    def problem(self, expected: list[float]) -> str:
        """Return a sentence on the problem with this result; empty when there is none."""
        if self.results != expected:
            return f"the program ended with {self.exit_status} and gave {self.results}"
        name = str(self.name)
        if not self.name.is_module:
            name = name.rpartition(".")[2]
        is_optional = str(self.name) in NOTHING_LACKS or str(self.name).startswith(BUILDERS)
        is_needed = self.was_asked_for and not is_optional
        if is_needed and not any(name in message for message in self.told):
            return f"the session does not name it: {'; '.join(self.told) or 'it says nothing'}"
        return ""


# which names


def imported_names() -> set[TorchName]:
    """Return the names of torch that our code in the user's process imports, by its syntax trees:
    ``from torch.x import y``, and ``y.z`` where y is a module, also one of ``private_names.py``.
    """
    names: set[TorchName] = set()
    for folder in ("capture", "worker"):
        for file in sorted((PACKAGE / folder).rglob("*.py")):
            if "virtual_gpu" not in file.parts:
                names.update(_names_in(ast.parse(file.read_text())))
    return {name for name in names if _is_there(name)}


def _names_in(tree: ast.Module) -> Iterator[TorchName]:
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == TABLE_MODULE:
            for alias in node.names:
                if alias.name in SUBMODULES:
                    modules[alias.asname or alias.name] = SUBMODULES[alias.name]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                if f"{node.module}.{alias.name}" in sys.modules:
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                else:
                    yield TorchName(str(node.module), alias.name)
    for node in ast.walk(tree):
        is_of_a_name = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if is_of_a_name and node.value.id in modules:
            yield TorchName(modules[node.value.id], node.attr)


def _is_there(name: TorchName) -> bool:
    """Return whether this torch has the name, as something other than a module of its own."""
    module = sys.modules.get(name.module)
    if module is None or f"{name.module}.{name.name}" in sys.modules:
        return False
    is_hidable = name.module != "torch" and not name.module.startswith("torch._C")
    return is_hidable and hasattr(module, name.name)


def replaced_names(folder: Path) -> set[TorchName]:
    """Return the names of torch's modules and classes that a plain capture replaces."""
    listed = folder / "replaced.json"
    child = os.fork()
    if child == 0:
        _list_replaced(listed)
        _capture(folder)
    os.waitpid(child, 0)
    lines = listed.read_text().splitlines()
    return {TorchName(*json.loads(line)) for line in lines}


def _list_replaced(listed: Path) -> None:
    patching = importlib.import_module("fx_explorer.capture.torch_compat.patching")
    original = patching.patched

    def note(module: str, attribute: str) -> None:
        if module.startswith("torch."):
            with listed.open("a") as lines:
                lines.write(json.dumps([module, attribute]) + "\n")

    def patched(owner: Any, name: str, make: Any) -> Any:
        is_class = isinstance(owner, type)
        note(
            owner.__module__ if is_class else owner.__name__,
            f"{owner.__qualname__}.{name}" if is_class else name,
        )
        return original(owner, name, make)

    def configured(config: Any, values: dict[str, Any]) -> Any:
        for name in values:
            note(config.__name__, name)
        return set_options(config, values)

    set_options = patching.configured
    patching.patched, patching.configured = patched, configured


# hiding


def hide(hidden: TorchName, asked: Path) -> None:
    """Let no code of ours find a name of torch's in this process. ``asked`` is made once it is
    looked for.
    """
    if hidden.is_module:
        _hide_module(str(hidden), asked)
        return
    owner: Any = importlib.import_module(hidden.module)
    *path, name = hidden.name.split(".")
    for part in path:
        owner = getattr(owner, part)
    if isinstance(owner, type):
        _hide_of_class(owner, name, asked)
    else:
        _hide_of_module(owner, name, asked)


def _hide_module(hidden: str, asked: Path) -> None:
    """Let ``importlib.import_module``, by which alone ours imports modules of torch's that are
    private, not find the module.
    """
    load = importlib.import_module

    def import_module(name: str, package: str | None = None) -> types.ModuleType:
        if name == hidden and _is_ours(sys._getframe(1)):
            asked.touch()
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return load(name, package)

    importlib.import_module = import_module


def _hide_of_module(owner: Any, name: str, asked: Path) -> None:
    kind = type(owner)

    def __getattribute__(this: Any, attribute: str) -> Any:
        if this is owner and attribute in (name, "_config") and _is_ours(sys._getframe(1)):
            if attribute == name:
                asked.touch()
                raise AttributeError(f"{owner.__name__} has no attribute {name!r}")
            entries = kind.__getattribute__(this, attribute)
            return {key: value for key, value in entries.items() if key != name}
        return kind.__getattribute__(this, attribute)

    hiding = type(kind.__name__, (kind,), {"__getattribute__": __getattribute__})
    # A module of options takes every other assignment for one of an option.
    object.__setattr__(owner, "__class__", hiding)


def _hide_of_class(owner: type, name: str, asked: Path) -> None:
    """Give our modules a ``getattr`` and a ``hasattr`` of their own: what a class answers cannot be
    changed for some callers only.
    """
    load = SourceFileLoader.exec_module

    def looked_up(this: Any, attribute: str, *otherwise: Any) -> Any:
        if this is not owner or attribute != name:
            return getattr(this, attribute, *otherwise)
        asked.touch()
        if otherwise:
            return otherwise[0]
        raise AttributeError(f"{owner.__qualname__} has no attribute {name!r}")

    def has(this: Any, attribute: str) -> bool:
        if this is owner and attribute == name:
            asked.touch()
            return False
        return hasattr(this, attribute)

    def exec_module(loader: SourceFileLoader, module: types.ModuleType) -> None:
        if module.__name__.startswith("fx_explorer."):
            vars(module).update(getattr=looked_up, hasattr=has)
        load(loader, module)

    SourceFileLoader.exec_module = exec_module  # type: ignore[method-assign]


def _is_ours(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename.startswith(f"{PACKAGE}{os.sep}")


# capturing


def captured_without(name: TorchName | None) -> Seen:
    """Capture the program in a process of its own, in which our code does not find ``name``."""
    with _folder() as folder:
        child = os.fork()
        if child == 0:
            _be_the_child(name, folder)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        result = folder / "result.json"
        return Seen(
            name or TorchName("", ""),
            status,
            json.loads(result.read_text()) if result.exists() else None,
            (folder / "asked").exists(),
            _told(folder / "session.fxs"),
        )


def _be_the_child(name: TorchName | None, folder: Path) -> None:
    """Hide the name and capture. Exceptions are not passed on: the parent's frames are above."""
    try:
        if name is not None:
            hide(name, folder / "asked")
        _capture(folder)
    except BaseException:  # noqa: BLE001 - told in the log of this child
        traceback.print_exc()
    os._exit(99)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Make a folder for the block. No ``TemporaryDirectory``: a child that runs exit handlers would
    remove it.
    """
    folder = Path(tempfile.mkdtemp())
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _capture(folder: Path) -> None:
    """Be the worker that captures the program. The process ends here."""
    signal.alarm(LIMIT_S)
    log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    program = folder / "program.py"
    program.write_text(PROGRAM)
    from fx_explorer.model import CaptureRequest
    from fx_explorer.worker import job

    request = CaptureRequest(
        str(program),
        str(folder / "session.fxs"),
        as_script=True,
        arguments=(str(folder / "result.json"),),
    )
    commands_read, commands_write = os.pipe()
    notices_read, notices_write = os.pipe()
    os.write(commands_write, request.to_json().encode() + b"\n")
    if os.fork() == 0:  # reads the notices until nobody writes any
        os.close(notices_write)
        while os.read(notices_read, 1 << 16):
            pass
        os._exit(0)
    os.close(notices_read)
    sys.argv = [str(program)]
    job.main(notices_write, commands_read)


def _told(session: Path) -> tuple[str, ...]:
    """Return the sentences of a session on missing parts, with a separate reader."""
    if not session.exists():
        return ()
    with sqlite3.connect(session) as database:
        rows = database.execute("select message from failure where \"where\" = 'recorder'")
        outcome = database.execute("select value from meta where key = 'outcome'").fetchall()
        return (*(str(row[0]) for row in rows), *(str(row[0]) for row in outcome))


def prepare() -> None:
    """Import torch and its compiler, and compile once, as a parent of processes that capture."""
    import torch
    import torch._inductor.compile_fx
    import torch.distributed.tensor.experimental
    import torch.export._trace  # noqa: F401

    gc.freeze()


def main() -> int:
    """Return 1 where a program did not give its result, or a session does not name what is missing."""
    parser = argparse.ArgumentParser(
        description=" ".join((__doc__ or "").partition("\n\n")[0].split())
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=0, help="1 where no name is given")
    parser.add_argument("--from", type=int, default=0, dest="first")
    arguments = parser.parse_args()
    prepare()
    chosen = [TorchName.parse(name) for name in arguments.names]
    every = arguments.every or (0 if chosen else 1)
    if every:
        with _folder() as folder:
            names = sorted(imported_names() | replaced_names(folder))
        print(f"{len(names)} names", flush=True)
        chosen += names[arguments.first :: every]
    expected = captured_without(None)
    print(expected, flush=True)
    problems = 0
    for name in chosen:
        seen = captured_without(name)
        problem = seen.problem(expected.results or [])
        problems += bool(problem)
        state = problem or ("told" if seen.was_asked_for else "not asked for")
        print(f"{'✗' if problem else '✓'} {name}: {state}", flush=True)

    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
