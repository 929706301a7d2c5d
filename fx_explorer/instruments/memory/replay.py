"""This module replays a wrapper statement by statement, to find which storages it allocates,
reuses, frees and returns.

Only names and sizes are followed; nothing is computed. As in Python, a storage is freed when the
last name that refers to it is deleted.

An unknown statement raises UnreadableCode; the caller then leaves the graph out and names it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from fx_explorer.instruments.memory.sizes import (
    ENTRY,
    UnknownSize,
    UnreadableCode,
    Wrapper,
    evaluated,
    evaluated_all,
    item_bytes,
    strided_bytes,
)

UNKNOWN = -1
"""Size of a storage whose bytes are not known."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a graph: its name, size and device."""

    name: str
    size_bytes: int
    """Bytes; UNKNOWN for a tensor of unknown size."""
    device: str = ""
    is_tensor: bool = True


@dataclass(frozen=True, slots=True)
class Result:
    """A tensor that a library call returns."""

    size_bytes: int
    device: str = ""


Results = Callable[[int], Sequence[Result | None] | None]
"""Maps the line of a library call to the results of the call; None where they are not known."""


@dataclass(slots=True)
class Lifetime:
    """A storage with the statements that allocate and free it."""

    name: str
    """The first name of the storage: ``buf3``, or that of an argument."""
    size_bytes: int
    device: str
    item: int
    """Bytes of an element; 0 when they are not known."""
    born: int
    """The number of the statement that allocated it; 0 for an argument."""
    dies: int | None = None
    """The first statement after it was freed; None for a storage that the graph returns."""
    made_on: int = 0
    """The line of the kernel call that first writes it; 0 when there is none."""
    is_argument: bool = False
    named: int = 0
    """The statement that gave it its last name. A buffer that is reused for another value gets the
    name of that value.
    """


@dataclass(frozen=True, slots=True)
class KernelStep:
    """A kernel call: its line in the output code, and the number of its statement."""

    line: int
    at: int
    takes: tuple[TakenStorage, ...] = ()
    """The storages among its arguments, but for those that ``out=`` names."""


@dataclass(frozen=True, slots=True)
class TakenStorage:
    """A storage that a kernel call is given."""

    storage: int
    """Its position in ``Replayed.storages``."""
    argument: int
    """The position among the call's arguments, from 0; NAMED for a keyword."""
    is_reused: bool = False
    """Whether the storage was given to a new value just before: what it held is read only by a
    kernel that works in place.
    """


NAMED = -1


@dataclass(frozen=True, slots=True)
class Replayed:
    """The storages that one run of a graph makes, and the kernels that write them."""

    storages: tuple[Lifetime, ...]
    kernels: tuple[KernelStep, ...]
    returned: tuple[tuple[int, ...], ...]
    """For each output, the positions in ``storages`` of its storages; empty for None and numbers.
    """
    end: int
    """The number of statements."""
    assumed: tuple[str, ...] = ()
    """Names of results whose element size was assumed to be that of the call's first argument."""


Value = int | tuple["Value", ...]
"""A storage by its number, or a tuple of several. A value that is not a tensor is an empty tuple.
"""

NOTHING: Value = ()

_ALIASES = (
    "reinterpret_tensor",
    "alloc_from_pool",
    "copy_if_misaligned",
    "as_strided",
    "view",
    "contiguous",
)

_NO_TENSOR = ("item", "size", "stride", "get_raw_stream", "Event", "Generator")

_DEVICE_OF = {"empty_strided_cpu_pinned": "cpu", "empty_strided_p2p": "cuda"}

_IGNORED = (ast.Assert, ast.Pass, ast.Import, ast.ImportFrom, ast.Global)


def replay(
    wrapper: Wrapper,
    arguments: Sequence[Argument],
    sizes: Mapping[str, int],
    results: Results,
    kernel_lines: frozenset[int],
) -> Replayed:
    """Replay the wrapper of a graph. ``sizes`` are the values of its symbols, ``kernel_lines`` the
    lines on which it calls kernels. Raises UnreadableCode.
    """
    return _Replay(wrapper, dict(sizes), results, kernel_lines).of(arguments)


@dataclass
class _Replay:
    wrapper: Wrapper
    sizes: dict[str, int]
    results: Results
    kernel_lines: frozenset[int]
    storages: list[Lifetime] = field(default_factory=list)
    holders: Counter[int] = field(default_factory=Counter)
    kernels: list[KernelStep] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    unwritten: list[int] = field(default_factory=list)
    reused: set[int] = field(default_factory=set)
    """Storages that hold another value from the next kernel on."""
    overwritten: set[int] = field(default_factory=set)
    """Storages that no longer hold their first value."""
    now: int = 0
    depth: int = 0

    def of(self, arguments: Sequence[Argument]) -> Replayed:
        given = tuple(self.argument(argument) for argument in arguments)
        returned = self.called(self.wrapper.entry, given)
        if isinstance(returned, tuple):
            outputs = tuple(tuple(stored(value)) for value in returned)
        else:
            outputs = ()
        for output in outputs:
            for number in output:
                self.storages[number].dies = None
        lifetimes = tuple(self.storages)
        return Replayed(lifetimes, tuple(self.kernels), outputs, self.now + 1, tuple(self.assumed))

    def argument(self, given: Argument) -> Value:
        if not given.is_tensor:
            return NOTHING
        storage = Lifetime(given.name, given.size_bytes, given.device, 0, 0, is_argument=True)
        return self.new(storage)

    def new(self, storage: Lifetime) -> int:
        self.storages.append(storage)
        return len(self.storages) - 1

    def called(self, function: ast.FunctionDef, given: Value) -> Value:
        """Run a function of the wrapper: the whole, a partition, or a subgraph."""
        if self.depth > MAX_DEPTH:
            raise UnreadableCode(
                f"line {function.lineno}: calls of the wrapper's functions are nested too deeply"
            )
        self.depth += 1
        frame = _Frame(self)
        parameters = function.args.args
        parameter = parameters[-1].arg if parameters else ""
        frame.bind(parameter, given)
        returned = frame.run(function.body)
        frame.leave()
        self.depth -= 1
        return returned

    def hold(self, value: Value) -> None:
        for number in stored(value):
            self.holders[number] += 1
            self.storages[number].dies = None

    def let_go(self, value: Value) -> None:
        for number in stored(value):
            self.holders[number] -= 1
            if not self.holders[number]:
                self.storages[number].dies = self.now

    def kernel(self, line: int, given: Iterable[tuple[int, Value]]) -> None:
        """Record a kernel call, ``given`` its arguments by position. It is the first to write the
        storages that were allocated since the last call.
        """
        takes = []
        for argument, value in given:
            held = [number for number in stored(value) if number not in self.overwritten]
            takes += [TakenStorage(number, argument, number in self.reused) for number in held]
        self.kernels.append(KernelStep(line, self.now, tuple(takes)))
        reused = {taken.storage for taken in takes if taken.is_reused}
        self.reused -= reused
        self.overwritten |= reused
        for number in self.unwritten:
            self.storages[number].made_on = line
        self.unwritten.clear()


MAX_DEPTH = 50


class _Frame:
    """The local names of one running function of the wrapper."""

    def __init__(self, replay: _Replay) -> None:
        self._replay = replay
        self._names: dict[str, Value] = {}

    def run(self, statements: Sequence[ast.stmt]) -> Value:
        """Run the statements up to a return, and give the returned value."""
        for statement, following in zip_longest(statements, statements[1:]):
            self._replay.now += 1
            if isinstance(statement, ast.Return):
                if statement.value:
                    return self._value(statement.value)
                return NOTHING
            if isinstance(statement, ast.With):
                returned = self.run(statement.body)
                if _returns(statement):
                    return returned
            else:
                self._statement(statement)
                if _is_reuse(statement, following):
                    self._replay.reused.update(stored(self._names.get(_target(statement), NOTHING)))
        return NOTHING

    def bind(self, name: str, value: Value) -> None:
        self._replay.hold(value)
        for number in stored(value):
            self._replay.storages[number].named = self._replay.now
        self._replay.let_go(self._names.get(name, NOTHING))
        self._names[name] = value

    def drop(self, name: str) -> None:
        self._replay.let_go(self._names.pop(name, NOTHING))

    def leave(self) -> None:
        for name in list(self._names):
            self.drop(name)

    def _statement(self, statement: ast.stmt) -> None:
        # What a call is given is looked up before the statement gives its names other values.
        is_kernel = statement.lineno in self._replay.kernel_lines
        given = [*self._given(statement)] if is_kernel else []
        self._run_statement(statement)
        if is_kernel:
            self._replay.kernel(statement.lineno, given)

    def _given(self, statement: ast.stmt) -> Iterator[tuple[int, Value]]:
        """Yield the position and the value of each argument that a statement's call is given."""
        match statement:
            case ast.Assign(value=ast.Call() as call) | ast.Expr(value=ast.Call() as call):
                for position, argument in enumerate(call.args):
                    yield position, self._shown(argument)
                for keyword in call.keywords:
                    if keyword.arg != "out":
                        yield NAMED, self._shown(keyword.value)

    def _shown(self, argument: ast.expr) -> Value:
        """Return the storages that an argument shows, without allocating any."""
        match argument:
            case ast.Call() if called_name(argument.func) in _ALIASES:
                return self._viewed(argument)
            case ast.Call():
                return NOTHING
        return self._value(argument)

    def _run_statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._assign(name, value)
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=value):
                self._unpack(names, value, statement)
            case ast.Expr(value=ast.Call() as call):
                self._call_alone(call)
            case ast.Delete(targets=targets):
                for target in targets:
                    self.drop(_name(target))
            case ast.Expr(value=ast.Constant()):
                pass
            case _ if not isinstance(statement, _IGNORED):
                raise unreadable(statement)

    def _assign(self, name: str, value: ast.expr) -> None:
        try:
            self._replay.sizes[name] = evaluated(value, self._replay.sizes)
        except UnknownSize:
            given = self._value(value, name)
            if given != NOTHING or name in self._names:
                self.bind(name, given)

    def _unpack(self, names: Sequence[ast.expr], value: ast.expr, statement: ast.stmt) -> None:
        given = self._value(value)
        if not isinstance(given, tuple) or len(given) != len(names):
            raise unreadable(statement)
        for name, part in zip(names, given, strict=True):
            self.bind(_name(name), part)

    def _call_alone(self, call: ast.Call) -> None:
        """Run a call whose result is not used: a kernel, or a check of a size."""
        name = called_name(call.func)
        if name == "assert_size_stride":
            self._checked(call)
        elif (
            name == "clear"
            and isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
        ):
            self.drop(call.func.value.id)

    def _checked(self, call: ast.Call) -> None:
        """Take the size of a library call's result from the check that follows the call."""
        match call.args:
            case [ast.Name(id=name), sizes, strides, *_] if isinstance(self._names.get(name), int):
                storage = self._replay.storages[next(stored(self._names[name]))]
            case _:
                return
        if storage.size_bytes == UNKNOWN and storage.item:
            try:
                given = [
                    evaluated_all(expression, self._replay.sizes) for expression in (sizes, strides)
                ]
                storage.size_bytes = strided_bytes(given[0], given[1], storage.item)
            except UnknownSize:
                return

    def _value(self, value: ast.expr, name: str = "") -> Value:
        match value:
            case ast.Name(id=other):
                return self._names.get(other, NOTHING)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return tuple(self._value(expression) for expression in elements)
            case ast.Subscript(value=whole, slice=index):
                return _element(self._value(whole), index)
            case ast.Call():
                return self._called(value, name)
        return NOTHING

    def _called(self, call: ast.Call, name: str) -> Value:
        function = called_name(call.func)
        if function.startswith("empty_strided"):
            return self._allocated(call, function, name)
        if function in _NO_TENSOR:
            return NOTHING
        if function in _ALIASES or _is_in_place(call.func):
            return self._viewed(call)
        if definition := self._replay.wrapper.functions.get(function):
            return self._run_function(definition, call)
        return self._library(call, name)

    def _viewed(self, call: ast.Call) -> Value:
        """Return the value that a view is taken of: the first argument, or the object of a
        method.
        """
        if isinstance(call.func, ast.Attribute):
            whole = self._value(call.func.value)
            if whole != NOTHING:
                return whole
        if call.args:
            return self._value(call.args[0])
        return NOTHING

    def _run_function(self, function: ast.FunctionDef, call: ast.Call) -> Value:
        given = self._value(call.args[-1]) if call.args else NOTHING
        # The function empties the list that it is given, whatever the caller calls it.
        self._replay.hold(given)
        if call.args and isinstance(call.args[-1], ast.Name) and function.name != ENTRY:
            self.drop(call.args[-1].id)
        self._replay.let_go(given)
        return self._replay.called(function, given)

    def _allocated(self, call: ast.Call, function: str, name: str) -> Value:
        size_bytes, replay = UNKNOWN, self._replay
        if call.args:
            item = item_bytes(ast.unparse(_keyword(call, "dtype") or call.args[2]))
        else:
            item = 0
        try:
            sizes, strides = (
                evaluated_all(expression, replay.sizes) for expression in call.args[:2]
            )
            size_bytes = strided_bytes(sizes, strides, item)
        except (UnknownSize, ValueError):
            size_bytes = UNKNOWN
        device = (
            _DEVICE_OF.get(function)
            or function.removeprefix("empty_strided").removeprefix("_")
            or _device(call)
        )
        number = replay.new(Lifetime(name, size_bytes, device, item, replay.now))
        replay.unwritten.append(number)
        return number

    def _library(self, call: ast.Call, name: str) -> Value:
        """Return new storages for the results of a library call."""
        replay, results = self._replay, self._replay.results(call.lineno)
        if results is None:
            return self._assumed(call, name)
        made: list[Value] = []
        for result in results:
            if result is None:
                made.append(NOTHING)
            else:
                made.append(
                    replay.new(Lifetime(name, result.size_bytes, result.device, 0, replay.now))
                )
                replay.unwritten.append(len(replay.storages) - 1)
        return made[0] if len(made) == 1 else tuple(made)

    def _assumed(self, call: ast.Call, name: str) -> Value:
        """Return a storage whose elements are assumed to be as large as those of the first
        argument, until a check gives its size.
        """
        replay = self._replay
        first = self._first_storage(call.args)
        if first is None:
            return NOTHING
        like = replay.storages[first]
        replay.assumed.append(name)
        number = replay.new(Lifetime(name, UNKNOWN, like.device, like.item, replay.now))
        replay.unwritten.append(number)
        return number

    def _first_storage(self, expressions: Iterable[ast.expr]) -> int | None:
        """Return the first storage among the arguments. Later arguments are not evaluated."""
        for expression in expressions:
            for number in stored(self._value(expression)):
                return number
        return None


def stored(value: Value) -> Iterator[int]:
    """Yield the storages of a value."""
    if isinstance(value, int):
        yield value
    else:
        for part in value:
            yield from stored(part)


def _name(target: ast.expr) -> str:
    """Return the name that is assigned or deleted; empty for a target that is not a name."""
    return target.id if isinstance(target, ast.Name) else ""


def called_name(function: ast.expr) -> str:
    """Return the last part of the called name, ``empty_strided_cpu``; ``partition_0`` for
    ``self.partitions[0]``.
    """
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(
            value=ast.Attribute(attr="partitions"), slice=ast.Constant(value=int() as number)
        ):
            return f"partition_{number}"
    return ""


def unreadable(statement: ast.stmt) -> UnreadableCode:
    words = ast.unparse(statement).split("\n")[0]
    return UnreadableCode(
        f"line {statement.lineno} of the output code is of an unknown form: {words[:80]}"
    )


def _target(statement: ast.stmt) -> str:
    """Return the only name that a statement assigns; empty for any other statement."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return ""


def _is_reuse(statement: ast.stmt, following: ast.stmt | None) -> bool:
    """Return whether a statement gives the memory of a value to another one: ``buf5 = buf2; del
    buf2``, on one line (torch/_inductor/codegen/wrapper.py, ``ReuseLine``).
    """
    if not isinstance(following, ast.Delete) or following.lineno != statement.lineno:
        return False
    return bool(_target(statement))


def _is_in_place(function: ast.expr) -> bool:
    """Return whether an operator writes into its first argument:
    ``torch.ops.aten.index_put_.default``.
    """
    parts = ast.unparse(function).split(".")
    return "ops" in parts and any(part.endswith("_") and not part.startswith("_") for part in parts)


def _element(value: Value, index: ast.expr) -> Value:
    match index:
        case ast.Constant(value=int() as at) if isinstance(value, tuple) and -len(
            value
        ) <= at < len(value):
            return value[at]
    return value


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _device(call: ast.Call) -> str:
    device = _keyword(call, "device")
    if isinstance(device, ast.Constant) and isinstance(device.value, str):
        return device.value.partition(":")[0]
    return ""


def _returns(statement: ast.With) -> bool:
    todo: list[ast.AST] = [*statement.body]
    while todo:
        inner = todo.pop()
        if isinstance(inner, ast.Return):
            return True
        for name in ("body", "orelse", "finalbody", "handlers"):  # expressions cannot return
            todo += getattr(inner, name, None) or []
    return False
