"""These tests check edits of source text: only the intended part changes. Each expected text is
written by hand.
"""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from fx_explorer.instruments.fixes.causes.branches import condition
from fx_explorer.instruments.fixes.causes.opaque_calls import isolated
from fx_explorer.source_edit.bound_names import is_pure, locals_of, read
from fx_explorer.source_edit.code import Code, Splice, parsed, spliced
from fx_explorer.source_edit.edits import (
    after_imports,
    imports,
    in_place_of,
    removed,
    unwrapped,
    wrapped,
)


def code(text: str) -> Code:
    return parsed(textwrap.dedent(text))


def test_splices_at_one_place_come_in_their_order() -> None:
    assert spliced("ad", [Splice(1, 1, "b"), Splice(0, 0, "_"), Splice(1, 1, "c")]) == "_abcd"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\nprint(a)  # gone\n# stays\nb = 2\n", "a = 1\n# stays\nb = 2\n"),
        ("a = 1; print(a); b = 2\n", "a = 1; b = 2\n"),
        ("a = 1; print(a)\n", "a = 1\n"),
        ("if x:\n    print(x)\n", "if x:\n    pass\n"),
        ("if x: print(x)\n", "if x: pass\n"),
        ("print(\n    1,\n)\nb = 2\n", "b = 2\n"),
    ],
)
def test_a_statement_is_removed_and_nothing_else(before: str, after: str) -> None:
    source = Code(before)
    (statement,) = (
        one
        for one in source.all(cst.Expr)
        if isinstance(one.value, cst.Call) and source.name_of(one.value.func) == "print"
    )
    assert spliced(before, [removed(source, statement)]) == after


def test_a_statement_is_put_under_a_condition_without_changing_its_strings() -> None:
    source = code('''
        def f():
        \tlog("""first
        second""",
        \t\t3)
    ''')
    (statement,) = source.statements_at(3)
    line = source.line_of(statement)
    assert line is not None
    assert spliced(source.text, wrapped(source, "if c:", line)) == textwrap.dedent('''
        def f():
        \tif c:
        \t\tlog("""first
        second""",
        \t\t\t3)
    ''')


def test_a_block_is_taken_out_of_its_with() -> None:
    source = code("""
        def f(x):
            with lock:
                # adds
                x = x + 1

                x = x * 2
            return x
    """)
    (statement,) = source.statements_at(3)
    assert isinstance(statement, cst.With)
    text = unwrapped(source, statement, statement.body)
    assert spliced(source.text, [in_place_of(source, statement, text)]) == textwrap.dedent("""
        def f(x):
            # adds
            x = x + 1

            x = x * 2
            return x
    """)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"""Doc."""\nimport os\n\nx = 1\n', '"""Doc."""\nimport os\nimport torch\n\nx = 1\n'),
        ("x = 1\n", "import torch\nx = 1\n"),
        (
            "from __future__ import annotations\nx = 1\n",
            "from __future__ import annotations\nimport torch\nx = 1\n",
        ),
        ("import torch.nn as nn\nimport torch\n", "import torch.nn as nn\nimport torch\n"),
        ("if here:\n    import torch\n", "import torch\nif here:\n    import torch\n"),
    ],
)
def test_torch_is_imported_where_it_is_not(before: str, after: str) -> None:
    assert spliced(before, imports(Code(before), "torch")) == after


def test_a_line_goes_below_the_imports() -> None:
    text = "import torch\n\n\ndef f():\n    pass\n"
    assert (
        spliced(text, [after_imports(Code(text), "a()")])
        == "import torch\n\na()\n\n\ndef f():\n    pass\n"
    )


def test_only_the_header_of_a_compound_statement_is_on_its_lines() -> None:
    source = code("""
        if (a and
                b):
            c = 1; d = 2
        else:
            e = 3
    """)
    kinds = [[type(one).__name__ for one in source.statements_at(line)] for line in range(2, 7)]
    assert kinds == [["If"], ["If"], ["Assign", "Assign"], [], ["Assign"]]


def test_names_are_those_that_others_know() -> None:
    source = code("""
        import numpy as np
        import torch._dynamo
        from torch._dynamo import graph_break as gb
        from . import helpers
        np.interp(1); torch._dynamo.graph_break(); gb(); helpers.f(); x.sum()
    """)
    names = [source.name_of(call.func) for call in source.all(cst.Call)]
    assert sorted(names) == [
        "..helpers.f",
        "numpy.interp",
        "torch._dynamo.graph_break",
        "torch._dynamo.graph_break",
        "x.sum",
    ]


@pytest.mark.parametrize(
    ("test", "tensor"),
    [
        ("x.sum() > 0", "x.sum() > 0"),
        ("x.any()", "x.any()"),
        ("bool(x.any())", "x.any()"),
        ("x.sum().item() > 0", "x.sum() > 0"),
        ("not x.any()", "torch.logical_not(x.any())"),
        ("x.any() and y > 0", "torch.logical_and(x.any(), y > 0)"),
        ("x.sum()", "(x.sum()).bool()"),
    ],
)
def test_a_condition_becomes_a_tensor_of_truth_values(test: str, tensor: str) -> None:
    source = Code(f"if {test}:\n    pass\n")
    (statement,) = source.all(cst.If)
    assert condition(source, statement.test) == tensor


@pytest.mark.parametrize(
    ("expression", "pure"),
    [
        ("x.sin() + 1", True),
        ("f(x)[0]", True),
        ("x.add_(1)", False),
        ("print(x)", False),
        ("(y := x)", False),
        ("s.pop()", False),
    ],
)
def test_an_expression_that_acts_is_not_computed_in_vain(expression: str, pure: bool) -> None:
    assert is_pure(cst.parse_expression(expression)) is pure


def test_names_that_an_expression_reads_are_not_those_it_binds() -> None:
    assert read(
        cst.parse_expression("f(a.b, key=c) + sum(d for d in e) + (lambda g: g + h)(1)")
    ) == [
        "f",
        "a",
        "c",
        "sum",
        "e",
        "h",
    ]


def test_names_of_a_function_are_its_parameters_and_what_it_binds() -> None:
    (function,) = code("""
        def f(a, *b, c=1, **d):
            global g
            g = e = 1
            for h, i in a:
                import j.k, l as m
            with n as o:
                p += 1
    """).all(cst.FunctionDef)
    assert locals_of(function) == set("abcdehijmop")


def test_an_expression_gets_what_it_reads_as_arguments() -> None:
    source = code("""
        class M:
            def forward(self, x, n):
                return np.f(x.detach(), self.conf.scale, n, x=n)
    """)
    (call,) = (call for call in source.all(cst.Call) if source.name_of(call.func) == "np.f")
    found = isolated(source, call)
    assert found is not None
    assert (found.text, found.parameters) == ("np.f(x, scale, n, x=n)", ("x", "n", "scale"))
    assert found.arguments == ("x.detach()", "n", "self.conf.scale")


def test_a_method_of_self_cannot_be_taken_out() -> None:
    source = code("""
        class M:
            def forward(self, x):
                return self.f(x)
    """)
    assert isolated(source, source.all(cst.Call)[0]) is None
