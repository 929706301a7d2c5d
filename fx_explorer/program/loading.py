"""This module loads the user's code: a file or module to inspect, a script to run as ``python
script.py`` would, or a text that runs in place of a file's own, to try a change of the program.

A text is run under the file's name: imports, ``load_file`` and whoever asks ``linecache`` for a
source line (Dynamo, tracebacks, the recorder) get it. The file on disk stays as it is, and so does
its cached bytecode.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import linecache
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from fx_explorer.errors import TargetError
from fx_explorer.session.untrusted.given_program import bound_names


def run_script(path: Path, typed: str, arguments: Sequence[str]) -> None:
    """Run the file as ``__main__``, with argv, ``sys.path`` and ``__main__`` as under ``python``.
    Raises whatever it raises.

    ``typed`` is the path as the user wrote it: that is what ``sys.argv[0]`` holds.
    """
    main = new_module("__main__", path)
    # As under ``python``: with a spec, multiprocessing would import ``__main__`` by its name in a
    # child.
    main.__spec__ = None
    sys.modules["__main__"] = main
    place(path, [typed, *arguments])
    exec(compile_file(path), main.__dict__)


def load_file(path: Path, arguments: Sequence[str]) -> ModuleType:
    """Execute the file as a module (not as ``__main__``) and return it. Raises whatever it
    raises.
    """
    place(path, [str(path), *arguments])
    name = path.stem
    if name in sys.modules or name in sys.stdlib_module_names:
        name = (
            f"fx_explorer_target_{name}"  # a target called types.py must not replace the real one
        )
    module = new_module(name, path)
    # Before it runs, as an import does: dataclasses and pickle look for a class's module there.
    sys.modules[name] = module
    try:
        exec(compile_file(path), module.__dict__)
    except ImportError as error:
        if "attempted relative import" not in str(error):
            raise
        root, dotted = package_of(path)
        raise TargetError(
            f"{path.name} imports relative to its package ({error}). Start in {root} and "
            f"name it as a module: {dotted}:OBJECT."
        ) from error
    return module


def package_of(path: Path) -> tuple[Path, str]:
    """Return the directory of the file's outermost package, and the file's dotted name from
    there.
    """
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").exists():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def load_module(name: str, arguments: Sequence[str]) -> ModuleType:
    """Import a module by its dotted name, the working directory first. Raises TargetError if it
    does not exist.
    """
    sys.argv[:] = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only the target itself: a module that the target fails to import is the program's own
        # error.
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise _no_module(error.name) from error
        raise


def check_package(module: str) -> None:
    """Raise TargetError if the package of a module does not exist, before torch is imported, which
    takes seconds. Nothing is imported.
    """
    package = module.partition(".")[0]
    if package in sys.modules or PathFinder.find_spec(package, [os.getcwd()]):
        return
    if not any(finder.find_spec(package, None) for finder in sys.meta_path):
        raise _no_module(package)


def _no_module(name: str) -> TargetError:
    return TargetError(
        f"there is no module {name!r} to import, neither in {os.getcwd()} nor on the path of "
        f"{sys.executable}. Give a file (path/to/model.py), start in the directory that holds the "
        "package, or choose --python."
    )


def new_module(name: str, path: Path) -> ModuleType:
    module = ModuleType(name)
    loader = importlib.machinery.SourceFileLoader(name, str(path))
    module.__dict__.update(
        __file__=str(path), __loader__=loader, __cached__=None, __builtins__=__builtins__
    )
    module.__spec__ = importlib.machinery.ModuleSpec(name, loader, origin=str(path))
    return module


def place(path: Path, argv: list[str]) -> None:
    """Set ``sys.argv`` and ``sys.path[0]`` as Python does for a script (not to the directory of a
    symbolic link itself).
    """
    sys.argv[:] = argv
    # ``python -P`` and PYTHONSAFEPATH ask Python to leave it out.
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, str(path.resolve().parent))


def compile_file(path: Path) -> CodeType:
    source: str | bytes | None = installed_text_of(str(path))
    if source is None:
        source = path.read_bytes()
    # Not inherited: our ``from __future__ import annotations`` is none of the user's.
    return compile(source, str(path), "exec", dont_inherit=True)


def parameters_of(path: Path, name: str) -> list[str]:
    """Return the parameters without a default of a function in the file, or of a class's
    ``forward``; empty if they are not known.
    """
    try:
        body: Sequence[ast.stmt] = ast.parse(path.read_bytes(), str(path)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    own = [statement for statement in body if isinstance(statement, ast.ClassDef | ast.FunctionDef)]
    found = next((statement for statement in own if statement.name == name), None)
    if isinstance(found, ast.ClassDef):
        methods = [member for member in found.body if isinstance(member, ast.FunctionDef)]
        found = next((function for function in methods if function.name == "forward"), None)
        skipped = 1
    else:
        skipped = 0
    if found is None:
        return []
    every = [*found.args.posonlyargs, *found.args.args]
    return [arg.arg for arg in every[skipped : len(every) - len(found.args.defaults)]]


def names_bound(text: str) -> set[str]:
    """Return the names that a file of this text binds when it is imported. Raises SyntaxError."""
    return {name for name, _ in bound_names(ast.parse(text).body)}


def members_bound(text: str) -> set[str]:
    """Return the names that the classes in this text bind: ``Net.forward``. Raises SyntaxError."""
    members = set()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.ClassDef):
            members |= {f"{statement.name}.{name}" for name, _ in bound_names(statement.body)}
    return members


# Texts that are run in place of files' own.


_texts: dict[str, str] = {}
"""Real path → text."""


def install_texts(texts: Mapping[str, str]) -> None:
    """Run these texts in place of the files' own from now on in this process. Modules that are
    imported already do not change.
    """
    if not texts:
        return
    for path, text in texts.items():
        _texts[os.path.realpath(path)] = text
        # Without a time of change linecache.checkcache leaves the entry alone.
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    sys.meta_path.insert(0, _OverlayFinder())


def installed_text_of(path: str) -> str | None:
    """Return the text in place of the file's; None for an unchanged file."""
    if _texts:
        return _texts.get(os.path.realpath(path))
    return None


class _OverlayFinder(importlib.abc.MetaPathFinder):
    """Finds modules through the other finders, and replaces the loader of a file with another
    text.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = self._spec_of_others(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            text = installed_text_of(spec.loader.path)
            if text is not None:
                spec.loader = _OverlayLoader(fullname, spec.loader.path, text)
        return spec

    def _spec_of_others(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec:
                return spec
        return None


class _OverlayLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        """Compile the text, neither reading nor writing cached bytecode."""
        return compile(self._text, self.path, "exec", dont_inherit=True)

    def get_source(self, fullname: str) -> str:
        return self._text
