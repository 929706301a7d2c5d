"""These tests check the fixes proposed for a line of source, as text: nothing is run. Each expected
text is written by hand.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import proposals, why_none
from fx_explorer.session import SessionReader, SessionWriter
from tests.fixes import after


def proposed(
    session: Path, source: str, registry_id: str = "GB0170", *, is_user: bool = True
) -> list[Fix]:
    """The fixes for a break at the line that holds ``# here``."""
    text = textwrap.dedent(source).lstrip("\n")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# here" in one)
    with SessionWriter(session) as writer:
        writer.add(model.SourceFile(0, "/p/m.py", writer.text(text), text.count("\n"), is_user))
        writer.add(model.GraphBreak(0, 0, registry_id, "why", "", (), "/p/m.py", line, "code"))
    with SessionReader(session) as reader:
        (found,) = distinct_breaks(reader)
        return proposals(reader, found)


def edited(fixes: list[Fix], title: str) -> str:
    """The lines that the fix adds, less their indentation."""
    (fix,) = (fix for fix in fixes if fix.title == title)
    lines = [line[1:] for line in fix.diff.splitlines()[2:] if line.startswith("+")]
    return textwrap.dedent("\n".join(lines))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if c > 0:  # here\n    y = a\nelse:\n    y = b", "y = torch.where(c > 0, a, b)"),
        ("if c > 0:  # here\n    y += a", "y = torch.where(c > 0, y + (a), y)"),
        (
            "if c > 0:  # here\n    y = a\nelif d > 0:\n    y = b\nelse:\n    y = e",
            "y = torch.where(c > 0, a, torch.where(d > 0, b, e))",
        ),
        (
            "if c > 0:  # here\n    self.y = a\nelse:\n    self.y = b",
            "self.y = torch.where(c > 0, a, b)",
        ),
        (
            "if c > 0:  # here\n    y = a\n    z = b\nelse:\n    y = b\n    z = a",
            "condition = c > 0\ny = torch.where(condition, a, b)\nz = torch.where(condition, b, a)",
        ),
        ("if c > 0:  # here\n    return a\nreturn b", "return torch.where(c > 0, a, b)"),
        ("if c > 0:  # here\n    return a\nelse:\n    return b", "return torch.where(c > 0, a, b)"),
        ("y = 2 * (a if c > 0 else b)  # here", "y = 2 * (torch.where(c > 0, a, b))  # here"),
    ],
)
def test_a_branch_becomes_where(tmp_path: Path, body: str, expected: str) -> None:
    source = (
        "import torch\ndef f(self, a, b, c, d, e, y, z):\n" + textwrap.indent(body, "    ") + "\n"
    )
    assert edited(proposed(tmp_path / "s.fxs", source), "choose with torch.where") == expected


@pytest.mark.parametrize(
    "body",
    [
        "if c > 0:  # here\n    print(a)",
        "if c > 0:  # here\n    y = a\n    y = y + 1\nelse:\n    y = b",
        "if c > 0:  # here\n    y = a\n    z = y\nelse:\n    y = b\n    z = b",
        "if c > 0:  # here\n    y = s.pop()\nelse:\n    y = b",
        "if c > 0:  # here\n    for _ in a:\n        y = a",
        "while c > 0:  # here\n    c = c - 1",
        "y = 'pos' if c > 0 else 'neg'  # here",
        "y = operator.add if c > 0 else operator.sub  # here",
        "if c > 0:  # here\n    y = [a]\nelse:\n    y = [b]",
        "if torch.equal(a, b):  # here\n    y = a\nelse:\n    y = b",
        "y = a if isinstance(c, float) and c > 0 else b  # here",
        "y = a if s.training and c > 0 else b  # here",
        "y = a if s is not None and c > 0 else b  # here",
        "if 'key' in s and c > 0:  # here\n    y = a",
    ],
)
def test_a_branch_that_does_more_than_choose_does_not_become_where(
    tmp_path: Path, body: str
) -> None:
    source = (
        "import operator, torch\ndef f(a, b, c, s, y):\n"
        + textwrap.indent(body, "    ")
        + "\n    return y\n"
    )
    assert "choose with torch.where" not in [
        fix.title for fix in proposed(tmp_path / "s.fxs", source)
    ]


@pytest.mark.parametrize(
    ("body", "first"),
    [
        ("if x.mean().item() > 1:  # here\n    x = x / 2", "choose with torch.where"),
        ("m = x.mean().item()  # here\nif m > 1:\n    x = x / 2", "keep the value in a tensor"),
        ("m = x.mean().item()  # here\nx = x - m", "keep the value in a tensor"),
    ],
)
def test_a_number_that_decides_a_branch_is_kept_in_a_tensor_after_the_branch_is_taken_away(
    tmp_path: Path, body: str, first: str
) -> None:
    source = "import torch\ndef f(x):\n" + textwrap.indent(body, "    ") + "\n    return x\n"
    titles = [fix.title for fix in proposed(tmp_path / "s.fxs", source, "GB0124")]
    assert titles[0] == first
    assert "keep the value in a tensor" in titles
    assert "put the number into the graph" in titles


def test_what_python_rounds_is_not_kept_in_a_tensor(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    m = x.mean().item(){}\n    return x - {}\n"
    for number, (used, is_kept) in enumerate(
        (("round(m, 2)", False), ("round(2 * m)", False), ("m", True))
    ):
        titles = [
            one.title
            for one in proposed(
                tmp_path / f"{number}.fxs", source.format("  # here", used), "GB0124"
            )
        ]
        assert ("keep the value in a tensor" in titles) is is_kept


def test_cond_passes_what_a_branch_changes_and_copies_what_it_leaves(tmp_path: Path) -> None:
    source = """
        import torch
        def f(x, w):
            if x.sum() > 0:  # here
                x = x * w
                x = x.sin()
            return x
    """
    (fix,) = (
        one for one in proposed(tmp_path / "s.fxs", source) if one.title == "choose with torch.cond"
    )
    assert after(fix) == textwrap.dedent("""\
        import torch
        def f(x, w):
            def if_true(x):
                x = x * w
                x = x.sin()
                return x

            def if_false(x):
                return x.clone()

            x = torch.cond(x.sum() > 0, if_true, if_false, (x,))
            return x
    """)


def test_cond_is_not_proposed_for_a_name_that_one_branch_alone_makes(tmp_path: Path) -> None:
    source = """
        import torch
        def f(x):
            if x.sum() > 0:  # here
                y = x
            return x
    """
    assert "choose with torch.cond" not in [
        fix.title for fix in proposed(tmp_path / "s.fxs", source)
    ]


def test_a_while_becomes_two_functions_and_a_call(tmp_path: Path) -> None:
    source = """
        import torch
        def f(x, w):
            a = x
            b = x
            while b.sum() < 100:  # here
                # the next number
                c = a
                a = b
                b += c * w
            return b
    """
    (fix,) = (
        one
        for one in proposed(tmp_path / "s.fxs", source)
        if one.title == "loop with torch.while_loop"
    )
    assert after(fix) == textwrap.dedent("""\
        import torch
        def f(x, w):
            a = x
            b = x
            def keep_on(a, b):
                return b.sum() < 100

            def one_round(a, b):
                # the next number
                c = a
                a = b
                b = b + (c * w)
                return a.clone(), b

            a, b = torch.while_loop(keep_on, one_round, (a, b))
            return b
    """)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if x.sum() > 9:\n    break", "break inside leaves or changes the enclosing function"),
        (
            "x = x + 1\nself.rounds = 1",
            "'self.rounds = 1' changes something that is not a variable of the function",
        ),
        ("x = x + 1\nprint(x)", "'print(x)' has side effects"),
        ("x = s.pop()", "'s.pop()' has side effects"),
        (
            "x = x + 1\ny = x",
            "y is made inside the loop and used after it, but the loop may have no iteration",
        ),
        ("z = 1", "it changes no variable that existed before the loop"),
    ],
)
def test_a_while_that_cannot_be_converted_says_why(tmp_path: Path, body: str, said: str) -> None:
    source = (
        "import torch\ndef f(self, x, s):\n    while x.sum() < 100:  # here\n"
        + textwrap.indent(body, " " * 8)
    )
    session = tmp_path / "s.fxs"
    assert proposed(session, f"{source}\n    return x, y\n") == []
    with SessionReader(session) as reader:
        (found,) = distinct_breaks(reader)
        assert why_none(reader, found) == f"This while cannot become torch.while_loop: {said}."


def test_a_forward_that_goes_backward_is_left_to_python_and_the_rest_compiled(
    tmp_path: Path,
) -> None:
    source = """
        import torch
        class M(torch.nn.Module):
            def forward(self, x, weight, *, scale):
                \"\"\"One step.\"\"\"
                loss = self.layer(x * scale).sum()

                # now the gradients
                (loss * 2).backward()  # here
                return loss.detach(), weight
    """
    (fix,) = (
        one
        for one in proposed(tmp_path / "s.fxs", source)
        if one.title.startswith("call backward() outside")
    )
    assert after(fix) == textwrap.dedent("""\
        import torch
        class M(torch.nn.Module):
            def forward_graph(self, x, scale):
                loss = self.layer(x * scale).sum()
                loss_2 = (loss * 2)
                return loss, loss_2

            @torch.compiler.disable(recursive=False)
            def forward(self, x, weight, *, scale):
                \"\"\"One step.\"\"\"
                loss, loss_2 = self.forward_graph(x, scale)
                # now the gradients
                loss_2.backward()  # here
                return loss.detach(), weight
    """)


@pytest.mark.parametrize(
    "function",
    [
        "def f(x):\n    y = x.sum()\n    y.backward()  # here\n    return y\n",  # nothing tells where it is compiled
        "@torch.compile\n@other\ndef f(x):\n    y = x.sum()\n    y.backward()  # here\n    return y\n",
        "@torch.compile\ndef f(x):\n    if x is None:\n        return x\n    x.sum().backward()  # here\n    return x\n",
        "@torch.compile\ndef f(x):\n    x.backward()  # here\n    return x\n",
        "@torch.compile\ndef f(x):\n    y = x.sum()\n    yield y\n    y.backward()  # here\n",
    ],
)
def test_a_function_that_cannot_be_split_is_not(tmp_path: Path, function: str) -> None:
    titles = [
        fix.title for fix in proposed(tmp_path / "s.fxs", f"import torch\n{function}", "GB0123")
    ]
    assert titles == ["trace backward() into the graph"]


@pytest.mark.parametrize(
    "line", ["assert len(x) < 3", "if len(x) > 3: raise ValueError", "y = y + 1"]
)
def test_a_print_is_not_moved_behind_what_raises_by_design(tmp_path: Path, line: str) -> None:
    body = ["assert len(x)", "y = x + 1", "print(y.sum())  # here", line, "return y"]
    source = "import torch\ndef f(x):\n" + "".join(f"    {one}\n" for one in body)
    titles = [fix.title for fix in proposed(tmp_path / "s.fxs", source)]
    assert ("print at the end of the function" in titles) == (line == "y = y + 1")


def test_a_print_is_written_by_who_calls_the_graph(tmp_path: Path) -> None:
    source = """
        import torch
        def f(x, names):
            y = x + 1
            print(f"{names[0]}: {y.sum().item():.2f}", x.shape, end="")  # here
            y = y * 2
            return y, x
        g = torch.compile(f, dynamic=True)
    """
    (fix,) = (
        one
        for one in proposed(tmp_path / "s.fxs", source)
        if one.title == "print where the compiled code is called"
    )
    assert fix.keeps_prints
    assert after(fix) == textwrap.dedent("""\
        import torch
        @torch.compile(dynamic=True)
        def f_graph(x, names):
            y = x + 1
            printed_1 = names[0]
            printed_2 = y.sum()
            printed_3 = x.shape
            y = y * 2
            return (y, x), printed_1, printed_2, printed_3


        def f(x, names):
            result, printed_1, printed_2, printed_3 = f_graph(x, names)
            print(f"{printed_1}: {printed_2.item():.2f}", printed_3, end="")
            return result
        g = f
    """)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x.sum().item()  # here", "y = x.sum().detach()  # here"),
        ("y = int(x.sum())  # here", "y = (x.sum()).detach().long()  # here"),
        ("y = float(x.sum().item())  # here", "y = (x.sum()).detach()  # here"),
        ("y = x[0].item()  # here", "y = x[0].detach().clone()  # here"),
        ("y = int(x[0, 1])  # here", "y = (x[0, 1]).detach().long().clone()  # here"),
        ("y = x.view(-1)[0].item()  # here", "y = x.view(-1)[0].detach().clone()  # here"),
        ("y = 1 + (x > 0).all().item()  # here", "y = 1 + (x > 0).all().detach().long()  # here"),
        ("y = bool((x > 0).all())  # here", "y = ((x > 0).all()).detach().bool().long()  # here"),
        (
            "y = 1 + (x.any() & ~(x > 0).all()).item()  # here",
            "y = 1 + (x.any() & ~(x > 0).all()).detach().long()  # here",
        ),
        (
            "y = 1 + (bool(x.any()) or x)  # here",
            "y = 1 + ((x.any()).detach().bool().long() or x)  # here",
        ),
        ("y = x.any().item(); z = not y  # here", "y = x.any().detach().long(); z = not y  # here"),
    ],
)
def test_a_number_stays_a_tensor_without_gradient(tmp_path: Path, line: str, expected: str) -> None:
    source = f"import torch\ndef f(x):\n    {line}\n    return x * y\n"
    assert (
        edited(proposed(tmp_path / "s.fxs", source, "GB0124"), "keep the value in a tensor")
        == expected
    )


def test_a_truth_that_is_only_asked_for_stays_one(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    y = bool(x.any())  # here\n    return x.masked_fill(torch.tensor(y), 0) if y else x\n"
    assert (
        edited(proposed(tmp_path / "s.fxs", source, "GB0124"), "keep the value in a tensor")
        == "y = (x.any()).detach().bool()  # here"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x[x > 0].sum()  # here", "y = torch.where(x > 0, x, 0).sum()  # here"),
        ("y = x[m].mean()  # here", "y = (torch.where(m, x, 0).sum() / (m).sum())  # here"),
        ("y = torch.masked_select(x, m).sum()  # here", "y = torch.where(m, x, 0).sum()  # here"),
    ],
)
def test_a_mask_becomes_zeros(tmp_path: Path, line: str, expected: str) -> None:
    source = f"import torch\ndef f(x, m):\n    {line}\n    return y\n"
    assert (
        edited(
            proposed(tmp_path / "s.fxs", source, "GB0036"),
            "keep the size: put zeros where the mask is false",
        )
        == expected
    )


@pytest.mark.parametrize("index", ["0", "-1"])
def test_a_row_that_a_number_names_is_no_mask(tmp_path: Path, index: str) -> None:
    source = f"import torch\ndef f(x):\n    y = x[{index}].mean()  # here\n    return y\n"
    titles = [fix.title for fix in proposed(tmp_path / "s.fxs", source, "GB0036")]
    assert titles == ["put a size that is not known yet into the graph"]


def test_a_disabled_function_is_found_by_whatever_name_torch_goes(tmp_path: Path) -> None:
    source = """
        import torch._dynamo as td
        from torch import compiler
        @compiler.disable(recursive=False)
        def g(x):
            return x
        h = td.disable(g)
        def f(x):
            return g(x) + h(x)  # here
    """
    fixes = proposed(tmp_path / "s.fxs", source, "GB0098")
    assert {fix.title for fix in fixes} == {"let g() be compiled", "let h() be compiled"}
    assert any("-@compiler.disable(recursive=False)\n" in fix.diff for fix in fixes)
    assert any("-h = td.disable(g)\n+h = g\n" in fix.diff for fix in fixes)


@pytest.mark.parametrize(
    "line",
    [
        "torch.manual_seed(0)",
        "self.tracker.count(x)",
        "time.sleep(1)",
        "flags['a'] = 1",
        "time.flag = 1",
    ],
)
def test_what_is_done_for_its_effect_can_be_skipped(tmp_path: Path, line: str) -> None:
    source = f"import time\nimport torch\nflags = {{}}\ndef f(self, x):\n    {line}  # here\n    return x\n"
    fixes = proposed(tmp_path / "s.fxs", source, "GB0007")
    assert (
        edited(fixes, "run this only in eager mode")
        == f"if not torch.compiler.is_compiling():\n    {line}  # here"
    )


@pytest.mark.parametrize("line", ["y = x", "x[0] = 1", "self.count = 1"])
def test_what_a_function_does_to_its_own_is_not_skipped(tmp_path: Path, line: str) -> None:
    source = f"import torch\ndef f(self, x):\n    {line}  # here\n    return x\n"
    assert proposed(tmp_path / "s.fxs", source, "GB0007") == []


def test_an_edit_of_a_library_says_so(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    torch._dynamo.graph_break()  # here\n    return x\n"
    (fix,) = proposed(tmp_path / "s.fxs", source, "GB0025", is_user=False)
    assert "belongs to an installed library" in fix.risk


def test_nothing_is_called_at_import_that_needs_the_variable_of_a_comprehension(
    tmp_path: Path,
) -> None:
    source = (
        "import torch, zlib\ndef f(x):\n    y = [{call} for r in x]  # here\n    return x * y[0]\n"
    )
    for call in ("r.item()", "zlib.crc32(r)"):
        fixes = proposed(tmp_path / "s.fxs", source.replace("{call}", call), "GB0124")
        assert not any("when the file is imported" in fix.title for fix in fixes)


def test_what_is_proposed_twice_is_offered_once(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    a, b = x.sum().item(), 1  # here\n    return x * a\n"
    fixes = proposed(tmp_path / "s.fxs", source, "GB0124")
    assert len({fix.effect for fix in fixes}) == len(fixes)


def test_a_log_message_that_is_written_once_is_a_log_message(tmp_path: Path) -> None:
    fixes = proposed(
        tmp_path / "s.fxs",
        'def f(x):\n    logger.warning_once("slow")  # here\n    return x',
        "GB0059",
    )
    assert "move the log message out of the compiled code" in [fix.title for fix in fixes]


@pytest.mark.parametrize(
    ("code", "warns"),
    [("float(x)", True), ("int(x)", False), ("x.item()", False), ("bool(x)", False)],
)
def test_a_warning_of_torchs_that_a_fix_takes_away_is_told(
    tmp_path: Path, code: str, warns: bool
) -> None:
    fixes = proposed(
        tmp_path / "s.fxs",
        f"import torch\n\ndef f(x):\n    n = {code}  # here\n    return x * n\n",
        "GB0124",
    )
    risks = [
        fix.risk
        for fix in fixes
        if fix.title in ("keep the value in a tensor", "put the number into the graph")
    ]
    assert len(risks) == 2
    assert all(("torch no longer gives its warning" in risk) == warns for risk in risks)
