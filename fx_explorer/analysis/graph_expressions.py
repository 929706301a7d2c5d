"""This module writes the arguments, targets and sizes of a row as Python expressions that can be
run.

A session may come from anybody, and what is written here is there to be run: only constants, nodes,
symbols and torch's own names are taken over, and whatever else a row holds is said to be missing.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

SHORTENED = " …"
"""End of the arguments of a node that the session has shortened."""

DEVICE = r"(?:cpu|cuda|xpu|mps|meta|hpu|mtia|xla|vulkan|privateuseone)"
"""Pattern for the beginning of a device's text."""
QUOTED = r"""('(?:\\[\s\S]|[^'\\])*(?:'|\\?\Z)|"(?:\\[\s\S]|[^"\\])*(?:"|\\?\Z))"""
"""Matches a Python string. A string without an end extends to the end of the text: searching again
from each quote in it would take the square of its length.
"""

_QUOTED_OR_DEVICE = re.compile(rf"""{QUOTED}|\b({DEVICE}:\d+)\b""")
_IS_DEVICE = re.compile(DEVICE)
_NUMBERS = {"inf": "float('inf')", "nan": "float('nan')"}
_OVERLOAD = re.compile(rf"""{QUOTED}|<OpOverload\(op='([\w.]+)', overload='(\w+)'\)>""")
"""Matches an operator that is an argument, in torch's notation, such as the one that with_effects
calls.
"""
_CALLS = {"slice", "range", "device", "float"}
"""Functions that may be called in an argument's text, since some values are written as calls."""

_SIZE_FUNCTIONS = {"Max": "max", "Min": "min"}
_BETWEEN = {
    "FloorDiv": "//",
    "CleanDiv": "//",
    "Mod": "%",
    "PythonMod": "%",
    "TrueDiv": "/",
    "IntTrueDiv": "/",
}
"""Name of a sympy function (torch/utils/_sympy/functions.py) → the Python operator that it stands
for.
"""

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "matmul": "@",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and_": "&",
    "or_": "|",
    "xor": "^",
}
_SAFE_BUILTINS = {
    "getattr",
    "abs",
    "max",
    "min",
    "sum",
    "len",
    "int",
    "float",
    "bool",
    "round",
    "pow",
    "divmod",
    "tuple",
    "list",
}
_SAFE_MEMBERS = {"__getitem__", "__setitem__"}
_ROOTS = {"torch", "operator", "math"}
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


TOO_DEEP = "its arguments are nested deeper than Python can read"


class NotPythonError(ValueError):
    """Raised for a row that cannot be written in Python; the message names the reason."""


@dataclass
class RowNames:
    """The meaning of the names in the rows of a graph, and which of them occurred."""

    device: str = "torch.device({})"
    """How a device is written; ``{}`` is its quoted name."""
    symbols: dict[str, None] = field(default_factory=dict)
    """Sizes that are used by name, in the order in which they were met."""
    roots: dict[str, None] = field(default_factory=dict)
    """Modules that must be imported."""
    asks_for_graphs: bool = False
    """Whether an operator uses a nested graph as data, without calling it."""
    foreign: dict[str, None] = field(default_factory=dict)
    """Operators that are not torch's own: a library or the user's program registers them."""

    def written_device(self, name: str) -> str:
        return self.device.format(json.dumps(name))


def is_shortened(arguments: str) -> bool:
    return arguments.endswith(SHORTENED)


def arguments_of(
    text: str, inputs: Collection[str], names: RowNames
) -> tuple[list[str], dict[str, str]]:
    """Return the positional and the named arguments as Python. ``inputs`` are the names of the
    nodes among them. Raises NotPythonError.
    """
    if is_shortened(text):
        raise NotPythonError("its arguments are longer than a session stores")
    quoted = _QUOTED_OR_DEVICE.sub(lambda match: match[1] or f"device({match[2]!r})", text)
    if "<OpOverload(" in quoted:
        quoted = _OVERLOAD.sub(
            lambda match: match[1] or f"overload('{match[2]}.{match[3]}')", quoted
        )
    try:
        call = ast.parse(f"f({quoted}\n)", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise NotPythonError(_no_python(text))
        written = _Arguments(inputs, names)
        positional = [written.of(argument) for argument in call.args]
        named = {}
        for argument in call.keywords:
            name = _name(argument)
            named[name] = written.of(argument.value, argument.arg or "")
        return positional, named
    except NotPythonError:
        raise
    except (RecursionError, MemoryError) as error:
        raise NotPythonError(TOO_DEEP) from error
    except (SyntaxError, ValueError) as error:
        if "too many nested" in str(error):
            reason = TOO_DEEP
        else:
            reason = _no_python(text)
        raise NotPythonError(reason) from error


def _no_python(text: str) -> str:
    """Say which part of the arguments has no Python; all of them when no part stands out."""
    part = re.search(r"<[^<>]*>", text)
    if part:
        return (
            f"its arguments cannot be written as Python: {_short(part[0])} is a value that has no "
            "Python form"
        )
    return f"its arguments cannot be written as Python: {_short(text)}"


def _name(argument: ast.keyword) -> str:
    if argument.arg is None:
        raise NotPythonError("its arguments are unpacked from a dict")
    return argument.arg


class _Arguments:
    """Writes the arguments of a call as Python expressions, one after the other."""

    def __init__(self, inputs: Collection[str], names: RowNames) -> None:
        self._inputs = inputs
        self._names = names

    def of(self, node: ast.expr, keyword_: str = "") -> str:
        """Return an argument as Python; ``keyword_`` is its name, if any."""
        if isinstance(node, ast.Constant):
            return "..." if node.value is ... else repr(node.value)
        if isinstance(node, ast.Name):
            return self._named(node.id, keyword_)
        if isinstance(node, ast.Tuple):
            return f"({', '.join(map(self.of, node.elts))}{',' * (len(node.elts) == 1)})"
        if isinstance(node, ast.List):
            return f"[{', '.join(map(self.of, node.elts))}]"
        if isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
            return self._dict(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"-{self.of(node.operand)}"
        if _is_complex(node):
            return f"({ast.unparse(node)})"
        if isinstance(node, ast.BinOp):
            return f"({size_expression(ast.unparse(node), self._names, known=self._inputs)})"
        if isinstance(node, ast.Attribute):
            return self._attribute(ast.unparse(node))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node.func.id, node)
        raise NotPythonError(f"it takes {_short(ast.unparse(node))}, which is not a plain value")

    def _dict(self, node: ast.Dict) -> str:
        pairs = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key:
                pairs.append(f"{self.of(key)}: {self.of(value)}")
        return f"{{{', '.join(pairs)}}}"

    def _named(self, name: str, keyword_: str) -> str:
        if name in self._inputs and keyword_ != "device":
            return name
        if name in _NUMBERS:
            return _NUMBERS[name]
        if _IS_DEVICE.fullmatch(name):
            return self._names.written_device(name)
        if name == "Ellipsis":
            return "..."
        if re.fullmatch(r"[a-z]+\d+(_\d+)*", name):
            self._names.symbols[name] = None
            return name
        raise NotPythonError(f"it takes {_short(name)}, which is neither a node nor a plain value")

    def _attribute(self, dotted: str) -> str:
        if not re.fullmatch(r"torch\.\w+", dotted):
            raise NotPythonError(f"it takes {_short(dotted)}, which is not a plain value")
        return dotted

    def _call(self, function: str, node: ast.Call) -> str:
        if (
            function == "overload"
            and len(node.args) == 1
            and isinstance(node.args[0], ast.Constant)
        ):
            return importable(str(node.args[0].value), self._names)
        if function not in _CALLS:
            raise NotPythonError(
                f"it takes {_short(ast.unparse(node))}, which is not a plain value"
            )
        positional = [self.of(expression) for expression in node.args]
        named = {_name(argument): self.of(argument.value) for argument in node.keywords}
        if function == "device":
            kind_text = positional[0] if positional else named.get("type", "'cpu'")
            kind = ast.literal_eval(kind_text)
            device = f"{kind}:{named['index']}" if "index" in named else str(kind)
            return self._names.written_device(device)
        arguments = [*positional, *(f"{name}={value}" for name, value in named.items())]
        return f"{function}({', '.join(arguments)})"


def _is_complex(node: ast.expr) -> bool:
    """Return whether the node is a number with two parts, ``2 - 3j``."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return False
    left, right = node.left, node.right
    if isinstance(left, ast.UnaryOp) and isinstance(left.op, ast.USub):
        real = left.operand
    else:
        real = left
    if not isinstance(real, ast.Constant) or not isinstance(right, ast.Constant):
        return False
    return isinstance(real.value, (int, float)) and isinstance(right.value, complex)


def call_of(target: str, positional: list[str], named: dict[str, str], names: RowNames) -> str:
    """Return the call of a function by its qualified name, as Python. Raises NotPythonError if it
    cannot be imported.
    """
    if target.startswith("_operator."):
        function = target.removeprefix("_")
    else:
        function = target
    if function in _SAFE_BUILTINS:
        # FX names them without their module (_get_qualified_name, torch/fx/node.py).
        function = f"builtins.{function}"
    sign = ""
    if function.startswith("operator."):
        sign = _OPERATORS.get(function.removeprefix("operator."), "")
    if sign and len(positional) == 2 and not named:
        left, right = positional
        if not left.startswith("-") and not right.startswith("-"):
            return f"{left} {sign} {right}"
    if function == "operator.getitem" and len(positional) == 2 and positional[0].isidentifier():
        return f"{positional[0]}[{positional[1]}]"
    if function == "builtins.getattr" and len(positional) == 2:
        return f"{positional[0]}.{member(positional[1].strip(chr(39) + chr(34)))}"
    return f"{importable(function, names)}({arguments_text(positional, named)})"


def member(name: str) -> str:
    """Return the name of a method or an attribute of a tensor. Raises NotPythonError for an invalid
    name.
    """
    if (
        not name.isidentifier()
        or keyword.iskeyword(name)
        or (_NEVER.search(name) and name not in _SAFE_MEMBERS)
    ):
        raise NotPythonError(
            f"it uses {_short(name)}, an attribute that graphs do not read from tensors"
        )
    return name


def arguments_text(positional: Iterable[str], named: dict[str, str]) -> str:
    """Return the arguments of a call as they stand between its brackets."""
    parts = [*positional]
    # ``from`` of aten.random.from
    if any(keyword.iskeyword(name) for name in named):
        pairs = ", ".join(f"{name!r}: {value}" for name, value in named.items())
        parts.append(f"**{{{pairs}}}")
    else:
        parts += [f"{name}={value}" for name, value in named.items()]
    return ", ".join(parts)


_DEFINED_IN = {
    "prims": ("torch._prims", "torch._inductor.inductor_prims"),
    "rngprims": ("torch._prims.rng_prims",),
    "inductor": ("torch._inductor.inductor_prims",),
    "quantized_decomposed": ("torch.ao.quantization.fx._decomposed",),
    "higher_order": ("torch._higher_order_ops",),
    "_c10d_functional": ("torch.distributed._functional_collectives",),
}
"""Namespace of operators → the modules that register them."""

_IN_TORCH = {
    "aten",
    "prim",
    "mkldnn",
    "mkldnn_prepacked",
    "onednn",
    "quantized",
    "_quantized",
    "profiler",
    "cudnn",
    "xpu",
}
"""Namespaces of ``torch.ops`` that exist without a further import."""

IS_TORCHS = {*_DEFINED_IN, *_IN_TORCH}

_OPERATIONS = re.compile(
    r"torch\.(\w+|((nn\.(functional|attention)|special|fft|linalg|Tensor|ops|amp|cuda\.amp|sparse"
    r"|nested|signal|functional|autograd"
    r"|_C|_functorch|_higher_order_ops|_prims|_refs|_inductor|_dynamo|utils\._pytree"
    r"|distributed)(\.\w+)+))"
)
"""Matches the names of torch's operations. Any other name of torch in a session cannot belong to a
graph.
"""

_NEVER = re.compile(
    r"(^|\.)(__\w+__|load\w*|save\w*|dump|tofile|from_file|hub|jit|package|serialization|os|sys"
    r"|io|subprocess|importlib|builtins"
    r"|inspect|ctypes|shutil|pickle|tempfile|pathlib|import_module|exec|eval|compile)(\.|$)"
)
"""Matches names that reach files, processes or the interpreter: torch's graphs never call them, but
a manipulated session might.
"""

_BITWISE = re.compile(r"(torch\.ops\.)?aten\.__i?(and|or|xor|lshift|rshift)__\.\w+")
"""Operators of torch's that are called as Python's methods are: ``torch.export`` has them for
``&``.
"""

_OWN_MODULES = re.compile(
    r"torch\.(_functorch|_inductor|_dynamo|_higher_order_ops|_export|_prims|_refs|distributed"
    r"|nn\.attention)\."
)


def importable(target: str, names: RowNames) -> str:
    """Return the expression for calling a function by name, and record its import. Raises
    NotPythonError.
    """
    if not _DOTTED.fullmatch(target):
        raise NotPythonError(f"it calls {_short(target)}, which has no name that could be imported")
    root, _, rest = target.partition(".")
    if (_NEVER.search(target) and not _BITWISE.fullmatch(target)) or (
        root == "torch" and not _OPERATIONS.fullmatch(target)
    ):
        raise NotPythonError(f"it calls {_short(target)}, which is not an operation of a graph")
    if root == "builtins" and rest in _SAFE_BUILTINS:
        return rest
    if target.startswith("torch.ops."):
        return _operator(target.removeprefix("torch.ops."), names)
    if root in _ROOTS and rest:
        names.roots[root] = None
        if _OWN_MODULES.match(target):
            modules = target.split(".")[:-1]
            names.roots[".".join(module for module in modules if not module[0].isupper())] = None
        return target
    if root in IS_TORCHS or target.count(".") == 2:
        return _operator(target, names)
    raise NotPythonError(
        f"it calls {_short(target)}, which is not part of torch, so a standalone script cannot "
        "call it"
    )


def _operator(target: str, names: RowNames) -> str:
    namespace = target.partition(".")[0]
    if namespace not in IS_TORCHS:
        names.foreign[".".join(target.split(".")[:2])] = None
    for module in _DEFINED_IN.get(namespace, ()):
        names.roots[module] = None
    return f"torch.ops.{target}"


def size_expression(text: str, names: RowNames, known: Collection[str] = ()) -> str:
    """Return a size such as ``16*s76`` as Python, and record its symbols. ``known`` are names that
    are not symbols. Raises NotPythonError.
    """
    try:
        return _Sizes(names, known).of(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(f"the size {_short(text)} cannot be written as Python") from error


class _Sizes:
    def __init__(self, names: RowNames, known: Collection[str]) -> None:
        self._names = names
        self._known = known

    def of(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return repr(node.value)
        if isinstance(node, ast.Name):
            if node.id not in self._known:
                self._names.symbols[node.id] = None
            return node.id
        if isinstance(node, ast.BinOp):
            # unparse knows Python's signs; the two sides are names, numbers and sums of them only.
            left, right = self.of(node.left), self.of(node.right)
            sign = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[2:-2]
            return f"{_bracketed(left)} {sign} {_bracketed(right)}"
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"-{_bracketed(self.of(node.operand))}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            parts = [self.of(expression) for expression in node.args]
            if node.func.id in _SIZE_FUNCTIONS:
                return f"{_SIZE_FUNCTIONS[node.func.id]}({', '.join(parts)})"
            if node.func.id in _BETWEEN and len(parts) == 2:
                return f"{_bracketed(parts[0])} {_BETWEEN[node.func.id]} {_bracketed(parts[1])}"
        raise NotPythonError(f"the size {_short(ast.unparse(node))} cannot be written as Python")


def _bracketed(text: str) -> str:
    if re.fullmatch(r"\w+|\d+\.\d+", text):
        return text
    return f"({text})"


def attribute(path: str, owner: str = "self") -> str:
    """Return ``self.fc1``, or ``getattr(self.layers, '0').weight``. Raises NotPythonError for an
    invalid path.
    """
    written = owner
    for part in path.split("."):
        if re.fullmatch(r"\d+", part):
            written = f"getattr({written}, {part!r})"
        elif part.isidentifier() and not keyword.iskeyword(part):
            written += f".{part}"
        else:
            raise NotPythonError(f"it reads {_short(path)}, which is not the name of an attribute")
    return written


def _short(text: str) -> str:
    if len(text) <= 80:
        return text
    return f"{text[:79]}…"
