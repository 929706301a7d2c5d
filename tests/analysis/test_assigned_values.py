"""These tests check what a program assigns to a tensor, read from its text: there is an answer only
where every assignment is seen.
"""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from fx_explorer.analysis.assigned_values import AssignedValues, Reader, assigned_to

FILE, OTHER = "/home/model.py", "/home/tables.py"


def assigned(
    source: str, text: str, line: int = 1, *, other: str = "", inputs: str | None = None
) -> AssignedValues | None:
    """Return the values assigned to a tensor. ``line`` is a line of the compiled function that
    reads the tensor.
    """
    trees = {FILE: ast.parse(dedent(text)), OTHER: ast.parse(other)}
    return assigned_to(source, trees, Reader(FILE, line, FILE, line), inputs)


def values(*arguments: object, **named: object) -> list[str] | None:
    answer = assigned(*arguments, **named)  # type: ignore[arg-type]
    if answer is None:
        return None
    return [ast.unparse(value.expression) for value in answer.values]


CLOSURE = """
def make(given):
    t = ones(4)
    def inner(x):
        own = x * 2
        return x + t + given + own
    return inner
"""


def test_variables_of_the_function_around() -> None:
    assert values("L['t']", CLOSURE, 4) == ["ones(4)"]
    assert values("L['given']", CLOSURE, 4) is None, "an argument of it"
    assert values("L['own']", CLOSURE, 4) is None, "computed in each call"
    numbered = assigned("G['f'].__closure__[1].cell_contents", CLOSURE, 6)
    assert numbered is not None
    assert numbered.name == "t", "given comes before it"
    shared = CLOSURE.replace("own = x * 2", "nonlocal t; t = t.cuda(); own = 1")
    assert values("L['t']", shared, 4) == ["ones(4)", "t.cuda()"]
    for otherwise in ("for t in many: pass", "del t", "import t", "with f() as t: pass", "t += 1"):
        bound = CLOSURE.replace("t = ones(4)", f"t = ones(4)\n    {otherwise}")
        assert values("L['t']", bound, 4 + 1) is None, otherwise


GLOBAL = """
table, other = ones(4), ones(5)
def f(x):
    return x + table
"""


def test_globals() -> None:
    assert values("G['table']", GLOBAL, 3) == ["ones(4)"]
    moved = GLOBAL + "def move():\n    global table\n    table = table.cuda()\n"
    assert values("G['table']", moved, 3) == ["ones(4)", "table.cuda()"]
    nested = GLOBAL + "if there:\n    table = table.cuda()\n"
    assert values("G['table']", nested, 3) == ["ones(4)", "table.cuda()"]
    starred = GLOBAL.replace("table, other", "table, *other")
    assert values("G['table']", starred, 3) is None
    set_elsewhere = "import model\nmodel.table = ones(9)"
    assert values("G['table']", GLOBAL, 3, other=set_elsewhere) == ["ones(4)", "ones(9)"]


def test_globals_of_another_file() -> None:
    text = "import tables as t\nfrom tables import table as mine\nfrom library import theirs\n"
    for source in ("G['t'].table", "G['__import_tables'].table", "G['mine']"):
        assert values(source, text, other="table = ones(4)") == ["ones(4)"], source
    for source in ("G['__import_library'].table", "G['theirs']"):
        text_with_attribute = text + "self.table = self.theirs = ones(4)"
        assert values(source, text_with_attribute, other="table = ones(4)") is None, source


DEFAULT = """
def f(x, t=ones(4), *, k=ones(5)):
    return x + t + k
def g(a, b):
    return a
"""


@pytest.mark.parametrize(
    ("call", "passes"),
    [
        ("f(x)", ""),
        ("g(x, y)", ""),
        ("full(x, 2)", ""),
        ("f(x, y)", "t"),
        ("f(x, t=y)", "t"),
        ("f(x, k=y)", "k"),
        ("f(*xs)", "t"),
        ("f(x, **more)", "t k"),
        ("compile(f)(x, y)", "t"),
        ("run(x, y)", "t"),
    ],
)
def test_defaults_of_the_compiled_function_that_no_call_passes(call: str, passes: str) -> None:
    text = DEFAULT + "from torch import full, compile\n" + call
    for name, value in (("t", "ones(4)"), ("k", "ones(5)")):
        expected = None if name in passes.split() else [value]
        assert values(f"L['{name}']", text, 2) == expected, name


def test_defaults_and_the_inputs_of_a_target() -> None:
    assert values("L['t']", DEFAULT, 2, inputs="torch.ones(3)") == ["ones(4)"]
    for inputs in ("(x, y)", "{'x': x, 't': y}", "{**more}", ""):
        assert values("L['t']", DEFAULT, 2, inputs=inputs) is None, inputs
    for source, name in (("__defaults__[0]", "t"), ("__kwdefaults__['k']", "k")):
        answer = assigned(f"G['f'].{source}", DEFAULT + "f(x, **more)", 3)
        assert answer is not None
        assert answer.name == name, "torch says that the default is read"


def test_attributes_of_objects_and_classes() -> None:
    text = """
    class A:
        table = ones(1)
        def __init__(self):
            self.table = ones(2)
            setattr(self, "table", ones(3))
    """
    every = {"ones(1)", "ones(2)", "ones(3)"}
    for source in ("L['self'].table", "dict(type(L['self']).__dict__)['table']"):
        answer = assigned(source, text)
        assert answer is not None
        assert answer.is_attribute
        assert {ast.unparse(value.expression) for value in answer.values} == every
    assert values("L['self'].table", "for self.table in many: pass") is None


@pytest.mark.parametrize(
    ("written", "source", "expected"),
    [
        ("items = [ones(1), ones(2)]", "G['items'][1]", "ones(2)"),
        ("items = [ones(n) for n in sizes]", "G['items'][1]", "ones(n)"),
        ("items = {'a': ones(1), 'a': ones(2)}", "G['items']['a']", "ones(2)"),
        ("items = dict(a=ones(1))", "G['items']['a']", "ones(1)"),
        ("items = [*many, ones(2)]", "G['items'][1]", None),
        ("items = {**many, 'a': ones(1)}", "G['items']['a']", None),
        ("items = [ones(1)]\nitems.append(x)", "G['items'][0]", None),
        ("items = [ones(1)]\nitems[n] = x", "G['items'][0]", None),
        ("items = make()", "G['items'][0]", None),
        ("f = partial(g, ones(1), t=ones(2))", "L['fn'].keywords['t']", "ones(2)"),
        ("f = functools.partial(g, ones(1))", "G['f'].args[0]", "ones(1)"),
        ("f = partial(g, *many)", "G['f'].args[0]", None),
        ("f = partial(g, **many)", "G['f'].keywords['t']", None),
    ],
)
def test_items_and_arguments_of_partial(written: str, source: str, expected: str | None) -> None:
    assert values(source, written) == (None if expected is None else [expected])


def test_an_item_that_is_assigned_later() -> None:
    text = "items = {'a': ones(1)}\nitems['a'] = x.cuda()\nitems['b'] = y"
    assert values("G['items']['a']", text) == ["ones(1)", "x.cuda()"]


@pytest.mark.parametrize("source", ["", "L['", "L['x'][", "f(x)", "L[0]", "(" * 5000])
def test_what_is_no_source_has_no_answer(source: str) -> None:
    assert assigned(source, "x = ones(4)") is None
