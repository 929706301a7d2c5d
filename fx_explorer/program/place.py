"""This module finds the place of a target: the file or module and the object that ``TARGET`` names.
It parses the file and runs nothing. It also decides which files and modules are the user's own:
Python's, torch's, installed ones and ours are not.
"""

from __future__ import annotations

import ast
import difflib
import functools
import os
import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.output_file import kind_of
from fx_explorer.program import loading
from fx_explorer.session.untrusted.given_program import (
    check_is_python,
    is_exported,
    runs_as_script,
    split_target,
    top_level_names,
)

MODULE_TARGET = re.compile(
    r"(?P<module>[^\W\d]\w*(\.[^\W\d]\w*)*)(:(?P<object>[^\W\d]\w*(\.[^\W\d]\w*)*))?"
)


@dataclass(frozen=True, slots=True)
class TargetPlace:
    """An absolute file or a module name, and optionally an object in it."""

    shown: str
    """The file or module as the user wrote it."""
    file: Path | None = None
    module: str = ""
    object: str = ""
    is_script: bool = False
    """Whether the file is run as ``__main__``."""
    is_exported: bool = False
    """Whether the file holds an ``ExportedProgram`` (``.pt2``)."""


def locate(request: CaptureRequest) -> TargetPlace:
    """Return the place of the request's target. Raises TargetError if there is no such file, or the
    text cannot be a target.
    """
    file, name = split_target(request.target)
    if file is None:
        match = MODULE_TARGET.fullmatch(request.target)
        if not match:
            raise TargetError(
                f"{request.target!r} is not a valid target: expected file.py, file.py:object or "
                "package.module:object"
            )
        if request.as_script:
            raise TargetError(
                f"{request.target!r} is not a file; fx-explorer run takes the path of a script"
            )
        return TargetPlace(match["module"], module=match["module"], object=match["object"] or "")
    if (file / "__main__.py").is_file():
        return TargetPlace(str(file), (file / "__main__.py").absolute(), is_script=True)
    check_file(file)
    if not request.as_script and not request.as_python and is_exported(file):
        if name:
            raise TargetError(
                f"{file} is not a Python file, so it has no {name}: leave out :{name}"
            )
        return TargetPlace(str(file), file.absolute(), is_exported=True)
    check_is_python(file, as_python=request.as_python)
    return TargetPlace(str(file), file.absolute(), object=name, is_script=runs_as_script(request))


def check_file(file: Path) -> None:
    if file.is_dir():
        raise TargetError(
            f"{file} is a directory without __main__.py; name a file in it, or "
            "package.module:object"
        )
    if not file.exists():
        raise TargetError(
            f"there is no file {file} (working directory: {Path.cwd()}).{_similar(file)}"
        )
    if not file.is_file():  # reading a FIFO would wait for whoever writes to it
        raise TargetError(
            f"{file} is {kind_of(file.stat().st_mode)}: write the program to a file first"
        )


def _similar(file: Path) -> str:
    """Return the sentence "Did you mean …?" when the directory has a file of a similar name;
    otherwise other advice.
    """
    if not file.parent.is_dir():
        return f" The directory {file.parent} does not exist either."
    names = difflib.get_close_matches(file.name, [p.name for p in file.parent.glob("*.py")], n=1)
    if names:
        return f" Did you mean {file.with_name(names[0])}?"
    return ""


def nothing_compiled(
    place: TargetPlace, ended: Outcome, known: str, given: Sequence[str] = ()
) -> str:
    """Return the message for a program that ended well and compiled nothing, with what could be
    compiled. ``known`` is the reason, if any, and ``given`` the callables that the program passed
    to torch.compile, which take precedence over the file's first one.
    """
    shown = place.shown
    if place.file is None or not place.is_script:
        return (
            f"{shown} ran and compiled nothing: torch.compile ran all of it in eager mode (is "
            "torch.compiler.disable used?)"
        )
    names = top_level_names(place.file)
    backends = _backends(place.file)
    defined_names = [
        name
        for name in names
        if names[name] in (ast.ClassDef, ast.FunctionDef) and name not in backends
    ]
    usual_names = [name for name in ("model", "get_model") if name in names]
    given_names = [name for name in given if name in names]
    # Without doubles, in this order.
    found = list(dict.fromkeys([*given_names, *usual_names, *defined_names]))
    if found:
        more = " …" if len(found) > 5 else ""
        defined = f"It defines {', '.join(found[:5])}{more}. "
    else:
        defined = ""
    maker = _maker_of_inputs(place.file, defined_names)
    wanted = next((name for name in found if f"{name}()" != maker), "NAME")
    takes = ", ".join(loading.parameters_of(place.file, wanted))
    inputs = maker or takes or "torch.randn(2, 8)"
    example = f"{shown}:{wanted} --inputs '{inputs}'"
    if takes and not maker:
        example += f" (your inputs in place of {takes})"
    ran = "ran to its end" if ended.kind == "finished" else "ended"
    why = known or "it never called an object that torch.compile returned"
    return (
        f"{shown} {ran} and compiled nothing: {why}. {defined}To compile a model or function of "
        f"it: fx-explorer {example}, or set example_inputs at the top level of the file."
    )


def _backends(file: Path) -> set[str]:
    """Return the names that a file gives as ``backend=``: they compile, and are not compiled."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    backends = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "backend":
            backends.add(ast.unparse(node.value))
    return backends


def _maker_of_inputs(file: Path, functions: Sequence[str]) -> str:
    """Return the call of a function that makes inputs, by its name; empty without one."""
    for name in functions:
        if "input" in name.lower() and not loading.parameters_of(file, name):
            return f"{name}()"
    return ""


_OWN = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


@functools.lru_cache(maxsize=16384)
def is_users_file(path: str) -> bool:
    """Return whether a file is the user's. A path that does not exist (``<string>``) is: exec and
    notebooks make such functions. But the code of a graph (torch/fx/graph_module.py) is torch's.
    """
    if not path or path.startswith(("<frozen", "<eval_with_key>")):
        return False
    real = _real(path)
    return not (_is_below(real, _OWN) or _is_installed(real) or _is_generated(real))


def _real(path: str) -> str:
    """Return the path without symbolic links. Each folder is resolved once: a process with torch
    has 3,000 modules in 400 folders.
    """
    if not os.path.isabs(path) or os.path.islink(path):
        return os.path.realpath(path)
    return os.path.join(_real_folder(os.path.dirname(path)), os.path.basename(path))


@functools.lru_cache(maxsize=16384)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


@functools.lru_cache(maxsize=16384)
def _folder_of(path: str) -> str:
    """Return the folder of a file, without symbolic links. Give absolute paths only: a change of
    directory does not change them.
    """
    return os.path.dirname(_real(path))


def _is_generated(real: str) -> bool:
    """Return whether Inductor wrote and imported the file
    (torch/_inductor/runtime/cache_dir_utils.py).
    """
    folder = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    return f"{os.sep}torchinductor_" in real or (
        bool(folder) and real.startswith(os.path.realpath(str(folder)) + os.sep)
    )


def _is_installed(real: str) -> bool:
    parts = real.split(os.sep)
    return (
        "site-packages" in parts
        or "dist-packages" in parts
        or any(_is_below(real, folder) for folder in _pythons())
    )


@functools.lru_cache(maxsize=1)
def _pythons() -> tuple[str, ...]:
    """Return the folders of the standard library. Packages in them were installed."""
    return tuple(os.path.realpath(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib"))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder + os.sep) and "site-packages" not in path[len(folder) :].split(
        os.sep
    )


@dataclass(frozen=True)
class UsersCode:
    """The code that is inspected: the user's own files, and installed files with the target or a
    change.
    """

    folders: frozenset[str] = frozenset()
    _known: dict[str, tuple[object, bool]] = field(default_factory=dict, compare=False, repr=False)
    """Name → (module, whether it is inspected). It is a cache, since a process with torch has about
    3,000 modules, which are checked before and after each call.
    """

    def has(self, path: str) -> bool:
        if is_users_file(path):
            return True
        if os.path.isabs(path):
            folder = _folder_of(path)
        else:
            folder = os.path.dirname(os.path.realpath(path))
        return folder in self.folders

    def modules(self) -> list[ModuleType]:
        """Return the user's modules that are imported now, in the order of their imports."""
        return [
            module for name, module in list(sys.modules.items()) if self._looks_into(name, module)
        ]

    def _looks_into(self, name: str, module: object) -> bool:
        known = self._known.get(name)
        if known is None or known[0] is not module:
            known = self._known[name] = (
                module,
                isinstance(module, ModuleType) and self._is_of_a_file(module),
            )
        return known[1]

    def _is_of_a_file(self, module: ModuleType) -> bool:
        """Return whether the module comes from a file. ``torch.ops`` and others name a file that
        does not exist.
        """
        file = getattr(module, "__file__", None)
        return isinstance(file, str) and os.path.isabs(file) and self.has(file)


def users_code(place: TargetPlace, request: CaptureRequest) -> UsersCode:
    target = place.file or getattr(sys.modules.get(place.module), "__file__", None)
    files: list[str | Path] = list(request.overlay)
    if target:
        files.append(target)
    return UsersCode(frozenset(os.path.dirname(os.path.realpath(path)) for path in files))
