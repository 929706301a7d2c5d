"""The user's own pass at a gate: a Python file with a function ``pass_(gm)``. It is applied to a
copy, which is then checked.

``gm`` is a ``torch.fx.GraphModule``. The pass changes it, or returns another one.
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Callable
from pathlib import Path

from torch.fx import GraphModule

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.stepping.edits.edited_graph import BrokenGraphError, check_edited
from fx_explorer.errors import PassProblem
from fx_explorer.state_folder import typed_path

PassFunction = Callable[[GraphModule], object]

UNCHANGED = "the graph is as it was before"


def load_pass(path: str | Path) -> PassFunction:
    """Return the function ``pass_`` of a file, read anew each time. Raises PassProblem when there
    is none.
    """
    path = typed_path(str(path))
    try:
        source = path.read_bytes()
    except OSError as error:
        raise PassProblem(
            f"cannot read the pass file {path}: {error.strerror}; give a Python file with def pass_(gm)"
        ) from error
    module = types.ModuleType("fx_explorer_pass")
    module.__file__ = str(path)
    try:
        exec(compile(source, str(path), "exec", dont_inherit=True), vars(module))
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        raise PassProblem(
            f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}{line}; {UNCHANGED}"
        ) from error
    # A ``sys.exit`` in the user's file must not end the worker.
    except (Exception, SystemExit) as error:
        raise PassProblem(f"{_said(error, path)}, when the file was loaded; {UNCHANGED}") from error
    function = getattr(module, "pass_", None)
    if not callable(function):
        found = ", ".join(
            name for name, value in vars(module).items() if isinstance(value, types.FunctionType)
        )
        raise PassProblem(
            f"{path} has no function pass_(gm){f'; it has {found}' if found else ''}; {UNCHANGED}"
        )
    return function


def apply_pass(path: str | Path, module: GraphModule) -> GraphModule:
    """Return a copy of the graph, changed by the pass; ``module`` itself is never changed.

    Nodes that the pass added or changed get the fake value they compute (``meta["val"]``, or
    Dynamo's ``example_value``): nothing after the gate works without it. Raises PassProblem when
    the pass fails or leaves a graph that cannot be compiled.
    """
    path = typed_path(str(path))
    function = load_pass(path)
    copied = snapshot(module)
    try:
        returned = function(copied)
    except (Exception, SystemExit) as error:
        raise PassProblem(f"{_said(error, path)}; {UNCHANGED}") from error
    edited = _graph_of(returned, copied, path)
    try:
        check_edited(module, edited)
    except BrokenGraphError as broken:
        raise PassProblem(
            f"pass_ of {path} leaves a graph that cannot be compiled: {broken}; {UNCHANGED}"
        ) from broken
    return edited


def _graph_of(returned: object, copied: GraphModule, path: Path) -> GraphModule:
    """Return the graph that the pass means: the one it was given, the one it returned, or that of a
    PassResult (torch.fx.passes).
    """
    found = getattr(returned, "graph_module", returned)
    if found is None:
        return copied
    if not isinstance(found, GraphModule):
        raise PassProblem(
            f"pass_ of {path} returned {type(returned).__name__}: return a GraphModule, a PassResult, or nothing; {UNCHANGED}"
        )
    return found


def _said(error: BaseException, path: Path) -> str:
    """Return ``fold.py:12: KeyError: 'gelu'``: the innermost line of the user's file, and what was
    raised there or below.
    """
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{where}: {''.join(traceback.format_exception_only(type(error), error)).strip()}"
