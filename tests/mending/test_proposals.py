"""What is proposed for a line of source, as text: nothing is run. Each expected text is written by hand."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from fx_explorer import mending, model
from fx_explorer.analysis.breaks import distinct_breaks
from fx_explorer.session import SessionReader, SessionWriter


def proposed(session: Path, source: str, registry_id: str = "GB0170", *, is_user: bool = True) -> list[mending.Mend]:
    """The mends for a break at the line that holds ``# here``."""
    text = textwrap.dedent(source).lstrip("\n")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if "# here" in one)
    with SessionWriter(session) as writer:
        writer.add(model.SourceFile(0, "/p/m.py", writer.text(text), text.count("\n"), is_user))
        writer.add(model.GraphBreak(0, 0, registry_id, "why", "", (), "/p/m.py", line, "code"))
    with SessionReader(session) as reader:
        (found,) = distinct_breaks(reader)
        return mending.proposals(reader, found)


def edited(mends: list[mending.Mend], title: str) -> str:
    """The lines that the mend adds, less their indentation."""
    (mend,) = (mend for mend in mends if mend.title == title)
    lines = [line[1:] for line in mend.diff.splitlines()[2:] if line.startswith("+")]
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
        ("if c > 0:  # here\n    self.y = a\nelse:\n    self.y = b", "self.y = torch.where(c > 0, a, b)"),
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
    source = "import torch\ndef f(self, a, b, c, d, e, y, z):\n" + textwrap.indent(body, "    ") + "\n"
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
    ],
)
def test_a_branch_that_does_more_than_choose_does_not_become_where(tmp_path: Path, body: str) -> None:
    source = "import torch\ndef f(a, b, c, s, y):\n" + textwrap.indent(body, "    ") + "\n    return y\n"
    assert "choose with torch.where" not in [mend.title for mend in proposed(tmp_path / "s.fxs", source)]


def test_cond_passes_what_a_branch_changes_and_copies_what_it_leaves(tmp_path: Path) -> None:
    source = """
        import torch
        def f(x, w):
            if x.sum() > 0:  # here
                x = x * w
                x = x.sin()
            return x
    """
    (mend,) = (one for one in proposed(tmp_path / "s.fxs", source) if one.title == "choose with torch.cond")
    assert mend.after == textwrap.dedent("""\
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
    assert "choose with torch.cond" not in [mend.title for mend in proposed(tmp_path / "s.fxs", source)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x.sum().item()  # here", "y = x.sum().detach()  # here"),
        ("y = int(x.sum())  # here", "y = (x.sum()).detach().long()  # here"),
        ("y = float(x.sum().item())  # here", "y = (x.sum()).detach()  # here"),
    ],
)
def test_a_number_stays_a_tensor_without_gradient(tmp_path: Path, line: str, expected: str) -> None:
    source = f"import torch\ndef f(x):\n    {line}\n    return x * y\n"
    assert edited(proposed(tmp_path / "s.fxs", source, "GB0124"), "keep the value in a tensor") == expected


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
        edited(proposed(tmp_path / "s.fxs", source, "GB0036"), "keep the size: put zeros where the mask is false") == expected
    )


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
    mends = proposed(tmp_path / "s.fxs", source, "GB0098")
    assert {mend.title for mend in mends} == {"let g() be compiled", "let h() be compiled"}
    assert any("-@compiler.disable(recursive=False)\n" in mend.diff for mend in mends)
    assert any("-h = td.disable(g)\n+h = g\n" in mend.diff for mend in mends)


@pytest.mark.parametrize(
    "line", ["torch.manual_seed(0)", "self.tracker.count(x)", "time.sleep(1)", "flags['a'] = 1", "time.flag = 1"]
)
def test_what_is_done_for_its_effect_can_be_skipped(tmp_path: Path, line: str) -> None:
    source = f"import time\nimport torch\nflags = {{}}\ndef f(self, x):\n    {line}  # here\n    return x\n"
    mends = proposed(tmp_path / "s.fxs", source, "GB0007")
    assert edited(mends, "do this only when not compiled") == f"if not torch.compiler.is_compiling():\n    {line}  # here"


@pytest.mark.parametrize("line", ["y = x", "x[0] = 1", "self.count = 1"])
def test_what_a_function_does_to_its_own_is_not_skipped(tmp_path: Path, line: str) -> None:
    source = f"import torch\ndef f(self, x):\n    {line}  # here\n    return x\n"
    assert proposed(tmp_path / "s.fxs", source, "GB0007") == []


def test_an_edit_of_a_library_says_so(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    torch._dynamo.graph_break()  # here\n    return x\n"
    (mend,) = proposed(tmp_path / "s.fxs", source, "GB0025", is_user=False)
    assert "belongs to an installed library" in mend.risk


def test_what_is_proposed_twice_is_offered_once(tmp_path: Path) -> None:
    source = "import torch\ndef f(x):\n    a, b = x.sum().item(), 1  # here\n    return x * a\n"
    mends = proposed(tmp_path / "s.fxs", source, "GB0124")
    assert len({(mend.after, str(mend.settings)) for mend in mends}) == len(mends)
