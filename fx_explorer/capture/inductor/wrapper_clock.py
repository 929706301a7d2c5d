"""This module puts a clock into the wrappers that Inductor generated, the Python functions that
allocate buffers and call kernels. It ticks wherever a wrapper begins another kind of work.

The functions are the same objects meanwhile and run other code (``__code__``), because torch keeps
them in closures. That code is made of the wrapper's own file (``PyCodeCache.modules``,
torch/_inductor/codecache.py; read in 2.11 and 2.13), with its line numbers.
"""

from __future__ import annotations

import ast
import contextlib
import time
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

PartKind = Literal["call", "checks", "buffers"]
"""The kind of work of a part. ``call``: of a kernel, of a library, or of another wrapper.
``checks``: of sizes, strides and alignment. ``buffers``: everything else, such as allocating,
releasing and reusing buffers, views, arguments, and results.
"""

WRAPPER, PART, WRAPPER_END = "wrapper", "part", "wrapper_end"
"""Kinds of ticks, each with the position of the part: a wrapper is entered, a part begins, a
wrapper is left.
"""

_CHECKS = ("assert_size_stride", "assert_alignment", "assert_")
_BUFFERS = (
    "empty_strided",
    "empty",
    "alloc_from_pool",
    "torch.empty",
    "reinterpret_tensor",
    "as_strided",
    "args.clear",
    "get_raw_stream",
    "torch.cuda.set_device",
)

_ADD, _NOW, _SEEN = "_fx_explorer_add", "_fx_explorer_now", "_fx_explorer_seen"

Seen = Callable[..., Any]
"""A function that receives the position of a part, the callable, and its arguments, and makes the
call.
"""


@dataclass(frozen=True, slots=True)
class WrapperPart:
    """Statements of a wrapper that follow each other and do the same kind of thing."""

    file: str
    line: int
    """Line of the first statement, from 1."""
    kind: PartKind
    name: str = ""
    """The called name of a ``call``, as it is written: ``cpp_fused_relu_0``,
    ``extern_kernels.addmm``.
    """
    arguments: int = 0


@dataclass(frozen=True)
class _Wrapper:
    function: types.FunctionType
    plain: types.CodeType
    ticking: types.CodeType
    counting: types.CodeType


class WrapperClock:
    """A clock for every wrapper that exists when it is made. ``add`` receives the ticks: time,
    kind, and position of the part.
    """

    def __init__(self, add: Callable[[tuple[float, str, int]], None]) -> None:
        self.parts: list[WrapperPart] = []
        self.sources: dict[str, str] = {}
        """File → the code that stands in it."""
        self._add = add
        self._modules = list(_generated_modules())
        self._wrappers: list[_Wrapper] = []
        for module in self._modules:
            self._wrappers += self._wrappers_of(module)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Switch the clock of the wrappers on inside the block."""
        with self._running(
            lambda wrapper: wrapper.ticking, **{_ADD: self._add, _NOW: time.perf_counter}
        ):
            yield

    @contextlib.contextmanager
    def seeing(self, seen: Seen) -> Iterator[None]:
        """Make the wrappers call through ``seen`` inside the block: it receives the position of the
        part, the callable, and its arguments.
        """
        with self._running(lambda wrapper: wrapper.counting, **{_SEEN: seen}):
            yield

    @contextlib.contextmanager
    def _running(
        self, code: Callable[[_Wrapper], types.CodeType], **names: object
    ) -> Iterator[None]:
        for module in self._modules:
            vars(module).update(names)
        try:
            for wrapper in self._wrappers:
                wrapper.function.__code__ = code(wrapper)
            yield
        finally:
            for wrapper in self._wrappers:
                wrapper.function.__code__ = wrapper.plain

    def _wrappers_of(self, module: types.ModuleType) -> Iterator[_Wrapper]:
        file = str(module.__file__)
        source = self.sources[file] = Path(file).read_text(encoding="utf-8")
        # Read twice, because each of the two changes what was read.
        definitions = _definitions(ast.parse(source))
        again = _definitions(ast.parse(source))
        for definition, same in zip(definitions, again, strict=True):
            function = _function(module, definition.name)
            if function is None:
                continue
            ticking = _compiled(_Ticking(file, self.parts).changed(definition), file)
            counting = _compiled(_Counting(file, self.parts).changed(same), file)
            yield _Wrapper(function, function.__code__, ticking, counting)


def _generated_modules() -> Iterator[types.ModuleType]:
    from fx_explorer.capture.torch_compat.private_names import PyCodeCache

    seen: set[str] = set()
    for module in PyCodeCache.modules:
        file = getattr(module, "__file__", None)
        if file and file not in seen and hasattr(module, "call"):
            seen.add(file)
            yield module


def _definitions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the functions that are wrappers: they take their arguments as one list, ``args``."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            inner = statement.body
        else:
            inner = [statement]
        for function in inner:
            if not isinstance(function, ast.FunctionDef):
                continue
            parameters = [parameter.arg for parameter in function.args.args]
            if parameters in (["args"], ["self", "args"]):
                yield function


def _function(module: types.ModuleType, name: str) -> types.FunctionType | None:
    """Return the function of a wrapper, whether it stands in the module or in its class."""
    for holder in (module, getattr(module, "Runner", None)):
        if holder is not None and name in vars(holder):
            function = vars(holder)[name]
            function = getattr(function, "__func__", function)
            if isinstance(function, types.FunctionType):
                return function
            return None
    return None


def _compiled(definition: ast.FunctionDef, file: str) -> types.CodeType:
    tree = ast.fix_missing_locations(ast.Module([definition], type_ignores=[]))
    names: dict[str, Any] = {}
    exec(compile(tree, file, "exec"), names)
    code: types.CodeType = names[definition.name].__code__
    return code


class _Ticking:
    """Puts a tick before every statement that begins a part."""

    def __init__(self, file: str, parts: list[WrapperPart]) -> None:
        self._file = file
        self._parts = parts
        self._kind: PartKind | None = None
        """Kind of the statements before; None after a call, which is a part of its own."""

    def changed(self, definition: ast.FunctionDef) -> ast.FunctionDef:
        begin = self._tick(
            WRAPPER, self._added(WrapperPart(self._file, definition.lineno, "buffers"))
        )
        self._kind = "buffers"
        body = [begin, *self._with_ticks(definition.body)]
        if not isinstance(definition.body[-1], ast.Return):
            body.append(self._tick(WRAPPER_END, len(self._parts) - 1))
        return _same(definition, body)

    def _with_ticks(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        ticking: list[ast.stmt] = []
        for statement in statements:
            ticking += self._around(statement)
        return ticking

    def _around(self, statement: ast.stmt) -> Iterator[ast.stmt]:
        if isinstance(statement, ast.Return):
            yield from self._returning(statement)
            return
        nested = [name for name in ("body", "orelse") if getattr(statement, name, None)]
        kind = _kind(statement)
        if kind == "call" or kind != self._kind:
            yield self._begin(statement, kind)
        self._kind = None if kind == "call" or nested else kind
        for name in nested:
            self._kind = None
            setattr(statement, name, self._with_ticks(getattr(statement, name)))
        yield statement

    def _returning(self, statement: ast.Return) -> Iterator[ast.stmt]:
        """Compute the returned value into a variable before the last tick, and return it after."""
        if self._kind != "buffers":
            yield self._begin(statement, "buffers")
        made = ast.Name("_fx_explorer_made", ast.Store())
        yield ast.copy_location(
            ast.Assign([made], statement.value or ast.Constant(None)), statement
        )
        yield self._tick(WRAPPER_END, len(self._parts) - 1)
        yield ast.copy_location(ast.Return(ast.Name("_fx_explorer_made", ast.Load())), statement)

    def _begin(self, statement: ast.stmt, kind: PartKind) -> ast.stmt:
        called = _called(statement) if kind == "call" else None
        name, arguments = "", 0
        if called:
            name, arguments = ast.unparse(called.func), len(called.args)
        part = WrapperPart(self._file, statement.lineno, kind, name, arguments)
        return self._tick(PART, self._added(part))

    def _added(self, part: WrapperPart) -> int:
        self._parts.append(part)
        return len(self._parts) - 1

    def _tick(self, kind: str, part: int) -> ast.stmt:
        now = ast.Call(ast.Name(_NOW, ast.Load()), [], [])
        tick = ast.Tuple([now, ast.Constant(kind), ast.Constant(part)], ast.Load())
        return ast.Expr(ast.Call(ast.Name(_ADD, ast.Load()), [tick], []))


class _Counting:
    """Rewrites a wrapper so that another function makes its calls and receives the part of each."""

    def __init__(self, file: str, parts: list[WrapperPart]) -> None:
        self._of_line = {}
        for i, part in enumerate(parts):
            if part.file == file and part.kind == "call":
                self._of_line[part.line] = i

    def changed(self, definition: ast.FunctionDef) -> ast.FunctionDef:
        for statement in ast.walk(definition):
            if isinstance(statement, (ast.Expr, ast.Assign)) and statement.lineno in self._of_line:
                statement.value = self._seen(statement.value, self._of_line[statement.lineno])
        return _same(definition, definition.body)

    def _seen(self, value: ast.expr, part: int) -> ast.expr:
        if not isinstance(value, ast.Call):
            return value
        arguments = [ast.Constant(part), value.func, *value.args]
        return ast.copy_location(
            ast.Call(ast.Name(_SEEN, ast.Load()), arguments, value.keywords), value
        )


def _same(definition: ast.FunctionDef, body: list[ast.stmt]) -> ast.FunctionDef:
    """Return the function with another body, without anything that would be evaluated when it is
    defined.
    """
    definition.body, definition.decorator_list = body, []
    return definition


def _called(statement: ast.stmt) -> ast.Call | None:
    if not isinstance(statement, (ast.Expr, ast.Assign)):
        return None
    value = statement.value
    return value if isinstance(value, ast.Call) else None


def _kind(statement: ast.stmt) -> PartKind:
    called = _called(statement)
    if called is None:
        return "buffers"
    name = ast.unparse(called.func)
    if name.startswith(_CHECKS):
        return "checks"
    if name.startswith(_BUFFERS):
        return "buffers"
    return "call"
