"""Calls that Dynamo may not be able to look into: of other modules than torch, of builtins, of
functions of the file's own.
"""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from fx_explorer.instruments.fixes.sites import Site
from fx_explorer.source_edit.code import Code, Statement
from fx_explorer.source_edit.names import locals_of, read, walk

_EXPLAINED = (
    "GB0124",
    "GB0109",
    "GB0170",
    "GB0036",
    "GB0025",
    "GB0098",
    "GB0099",
    "GB0123",
    "GB0039",
)
"""Breaks whose cause is another than a call that cannot be looked into."""

REACH = 3
"""How many frames outwards a call may be that is kept out of Dynamo's sight as a whole."""

_MAKES_TENSOR = ("torch.from_numpy", "torch.as_tensor", "torch.tensor", "torch.asarray")

_WRITING = ("print", "open", "warnings.", "logging.", "input")


@dataclass(frozen=True, slots=True)
class OpaqueCall:
    statement: Statement
    call: cst.Call
    name: str
    """Dotted, as it is known outside the file: ``zlib.crc32``."""
    written: str
    """The name of the function as it is written in the file."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def is_pythons(self) -> bool:
        """Return whether the call is of a builtin or of the standard library: it computes nothing
        on tensors.
        """
        return self.name.partition(".")[0] in sys.stdlib_module_names or hasattr(
            builtins, self.name
        )


def is_explained(site: Site) -> bool:
    """Return whether torch names another cause than a call that it cannot look into."""
    return site.broken.registry_id in _EXPLAINED


def opaque_calls(site: Site) -> Iterator[OpaqueCall]:
    """List the calls that torch's explanation names; else the outermost ones.

    Methods of values are not among them: nothing tells what they are called on.
    """
    # Only at the break itself: further out, a call may still be kept out of Dynamo's sight as a
    # whole, whatever breaks inside it.
    if site.depth == 0 and is_explained(site):
        return
    calls = list(_named_calls(site))
    named = [
        call
        for call in calls
        if re.search(rf"\b{re.escape(call.short_name)}\b", site.broken.explanation)
    ]
    inner = {id(node) for call in calls for node in walk(call.call) if node is not call.call}
    yield from named or (call for call in calls if id(call.call) not in inner)


def _named_calls(site: Site) -> Iterator[OpaqueCall]:
    for statement, call, name in site.calls():
        root = name.partition(".")[0]
        function = site.code.function(call)
        is_local = function is not None and root in locals_of(function)
        # A name of the function's own may stand for anything, torch's functions are looked into,
        # and what writes is for ``causes/effects/printing.py``.
        if (
            name
            and not is_local
            and root not in ("torch", "self", "super")
            and not name.startswith(_WRITING)
        ):
            yield OpaqueCall(statement, call, name, site.code.source(call.func))


def tensor_around(code: Code, call: cst.Call) -> cst.Call:
    """Return the call that makes a tensor of the result, where one does; else the call itself."""
    around = (node for node in code.ancestors(call) if isinstance(node, cst.Call))
    return next((node for node in around if code.name_of(node.func) in _MAKES_TENSOR), call)


@dataclass(frozen=True, slots=True)
class IsolatedExpression:
    """An expression as a function of its own could have it."""

    text: str
    """The expression, with the parameters' names."""
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    """What they are given, as written where the expression was."""


def isolated(code: Code, expression: cst.BaseExpression) -> IsolatedExpression | None:
    """Return the expression without what it closes over: ``np.f(x.detach(), self.scale)`` →
    ``np.f(x, scale)`` of ``x.detach()`` and ``self.scale``. A gradient that the expression does not
    have is not asked for. None when it calls methods of ``self``.
    """
    function = code.function(expression)
    known = locals_of(function) if function else set()
    text, arguments = (
        code.source(expression),
        {name: name for name in read(expression) if name in known and name != "self"},
    )
    for name in arguments:
        # Detached outside only where nothing else reads the name: another use may need its
        # gradient.
        attached = re.sub(rf"(?<![\w.]){name}\.detach\(\)", "", text)
        if attached != text and not re.search(rf"(?<![\w.]){name}\b(?!=)", attached):
            text, arguments[name] = (
                re.sub(rf"(?<![\w.]){name}\.detach\(\)", name, text),
                f"{name}.detach()",
            )
    for chain in _chains_of_self(expression):
        written = code.source(chain)
        if isinstance(chain, cst.Name):
            return None
        parameter = written.rpartition(".")[2]
        # ``self.a.scale`` and ``self.b.scale``, or a local ``scale``, cannot both be called
        # ``scale``.
        if parameter in arguments and arguments[parameter] != written:
            return None
        arguments[parameter] = written
        text = text.replace(written, parameter)
    return IsolatedExpression(text, tuple(arguments), tuple(arguments.values()))


def _chains_of_self(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield ``self.a.b``, as far as nothing of it is called; ``self`` where a method is."""
    if (isinstance(node, cst.Attribute) and _root(node) == "self") or (
        isinstance(node, cst.Name) and node.value == "self"
    ):
        yield node
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        yield from _chains_of_self(node.func.value)
        for argument in node.args:
            yield from _chains_of_self(argument.value)
    else:
        for child in node.children:
            yield from _chains_of_self(child)


def _root(node: cst.BaseExpression) -> str:
    while isinstance(node, cst.Attribute):
        node = node.value
    return node.value if isinstance(node, cst.Name) else ""
