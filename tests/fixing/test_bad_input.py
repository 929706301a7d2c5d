"""These tests check that a break that cannot be fixed, or must not be, gets a message and never a
traceback.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fx_explorer
from fx_explorer import model
from fx_explorer.analysis.whole_session import session_figures
from fx_explorer.errors import UsageError
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.offers import accept, proposals, why_none
from fx_explorer.instruments.fixes.trial import try_fix
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.fixes import before, elsewhere, with_text
from tests.fixing.conftest import Case

PRINTS = "import torch\n\n\ndef f(x):\n    x = x + 1\n    print('größer')\n    return x * 2\n"


def loaded(path: Path) -> Any:
    """The file as a module, under its own name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded(function: Callable[..., object], session: Path) -> Path:
    torch._dynamo.reset()
    with fx_explorer.record(session, build=False):
        torch.compile(function, backend="eager")(torch.ones(3))
    return session


def one_break(session: Path, file: str, text: str = "", is_user: bool = True) -> Path:
    """A session by hand with a break on line 1 of ``file``; its text is missing when it is empty."""
    with SessionWriter(session) as writer:
        if text:
            writer.add(
                model.SourceFile(0, file, writer.text(text), text.count("\n"), is_user=is_user)
            )
        else:
            writer.add(model.SourceFile(0, file, 0, note="the source could not be read"))
        writer.add(model.GraphBreak(0, 0, "GB0025", "asked for", "", (), file, 1, "graph_break()"))
    return session


def offered(session: Path) -> tuple[list[Fix], str]:
    """(fixes, obstacle) of the session's one break."""
    with SessionReader(session) as reader:
        (found,) = distinct_breaks(reader)
        return proposals(reader, found), why_none(reader, found)


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("<ipython-input-3-abc>", "is a notebook cell: no file to edit"),
        ("/tmp/ipykernel_12/345.py", "is a notebook cell: no file to edit"),
        ("<string>", "is code created with exec: no file to edit"),
        ("/p/gone.py", "the source could not be read, so no edit can be made"),
    ],
)
def test_code_without_a_file_gets_no_edit_and_says_why(
    tmp_path: Path, file: str, said: str
) -> None:
    fixes, obstacle = offered(one_break(tmp_path / "s.fxs", file))
    assert [fix for fix in fixes if fix.path] == []
    assert said in obstacle


def test_pythons_own_library_is_not_edited(tmp_path: Path) -> None:
    python = "/usr/lib/python3.11"
    own = one_break(
        tmp_path / "own.fxs", f"{python}/logging/__init__.py", "graph_break()\n", is_user=False
    )
    fixes, obstacle = offered(own)
    assert [fix for fix in fixes if fix.path] == []
    assert "is part of Python: the break cannot be fixed there" in obstacle
    installed = one_break(
        tmp_path / "installed.fxs",
        f"{python}/site-packages/logged.py",
        "graph_break()\n",
        is_user=False,
    )
    assert "is part of Python" not in offered(installed)[1]


def test_a_file_that_does_not_parse_gets_no_edit_and_says_why(tmp_path: Path) -> None:
    fixes, obstacle = offered(one_break(tmp_path / "s.fxs", "/p/odd.py", "def f(:\n"))
    assert fixes == []
    assert "cannot be parsed" in obstacle


def test_code_from_exec_still_gets_options(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    return x * x.sum().item()\n", names)
    fixes, _ = offered(recorded(names["f"], tmp_path / "s.fxs"))
    assert [fix.settings for fix in fixes] == [{"dynamo.capture_scalar_outputs": True}]


def test_a_decorator_that_hides_the_function_does_not_hide_its_line(tmp_path: Path) -> None:
    file = tmp_path / "hidden.py"
    file.write_text(
        f"def hide(f):\n    return lambda *a: f(*a)\n\n\n{PRINTS.replace('def f', '@hide' + chr(10) + 'def f')}"
    )
    fixes, _ = offered(recorded(loaded(file).f, tmp_path / "s.fxs"))
    (out,) = (fix for fix in fixes if fix.title == "move the print out of the compiled code")
    assert "\n-    print('größer')\n" in out.diff


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (PRINTS.replace("\n", "\r\n").encode(), "crlf"),
        (PRINTS.replace("    ", "\t").encode(), "tabs"),
        (f"# -*- coding: latin-1 -*-\n{PRINTS}".encode("latin-1"), "latin"),
        (PRINTS.encode().rstrip(b"\n"), "no_last_newline"),
        (b"\xef\xbb\xbf" + PRINTS.encode(), "bom"),
    ],
)
def test_a_file_in_another_form_is_fixed_and_keeps_its_form(
    tmp_path: Path, content: bytes, name: str
) -> None:
    file = tmp_path / f"{name}.py"
    file.write_bytes(content)
    found, _ = offered(recorded(loaded(file).f, tmp_path / "s.fxs"))
    fix = next(fix for fix in found if fix.title == "do the print only in eager mode")
    accept(fix)
    fixed = file.read_bytes()
    line = next(line for line in content.splitlines(keepends=True) if b"print" in line)
    indent = line[: len(line) - len(line.lstrip())]
    end = line[len(line.rstrip()) :]
    assert fixed == content.replace(
        line, indent + b"if not torch.compiler.is_compiling():" + end + indent + line
    )
    with SessionReader(recorded(loaded(file).f, tmp_path / "after.fxs")) as reader:
        assert distinct_breaks(reader) == []


@in_exhaustive_runs
@pytest.mark.usefixtures("warm_workers")
def test_a_read_only_file_in_another_form_is_tried_and_not_written(
    tmp_path: Path, captured: Callable[..., Path]
) -> None:
    file = tmp_path / "odd.py"
    source = f"# -*- coding: latin-1 -*-\n{PRINTS}".replace("    ", "\t").replace("\n", "\r\n")
    file.write_bytes(source.encode("latin-1"))
    file.chmod(0o444)
    with SessionReader(captured(f"{file}:f", inputs="torch.ones(3)", backend="eager")) as reader:
        (found,) = distinct_breaks(reader)
        fix = next(
            proposed
            for proposed in proposals(reader, found)
            if proposed.title.startswith("let torch do the print")
        )
        request, before = reader.request(), session_figures(reader)
    assert request is not None
    assert asyncio.run(try_fix(request, fix, before)).verdict == "good"
    with pytest.raises(UsageError, match="is read-only"):
        accept(fix)
    assert file.read_bytes() == source.encode("latin-1")


def test_a_file_that_has_changed_since_is_not_tried(
    case: Callable[[str], Case], tmp_path: Path
) -> None:
    found = case("values:item")
    other = tmp_path / "item.py"
    other.write_text("# something else\n")
    trial = found.tried(elsewhere(found.fixes[0], str(other)))
    assert trial.verdict == "refused"
    assert "has changed since it was captured, first in line 1" in trial.reason
    assert trial.took_s == 0


@pytest.mark.parametrize(
    ("code", "verdict", "reason"),
    with_others(
        [
            ("while True: pass", "timed out", "after 3 s (not verified)"),
            ("import ctypes; ctypes.string_at(0)", "refused", "SIGSEGV"),
            ("torch._dynamo.graph_break()", "refused", "the break stays"),
        ],
        [
            ("import os; os._exit(7)", "refused", "ended its process with status 7"),
            ("raise RuntimeError('no')", "refused", "RuntimeError: no"),
        ],
    ),
)
def test_a_fix_that_loops_crashes_or_raises_costs_its_worker_only(
    case: Callable[[str], Case], code: str, verdict: str, reason: str
) -> None:
    found = case("calls:asked_for")
    (fix,) = found.fixes
    broken = with_text(
        fix, before(fix).replace("    torch._dynamo.graph_break()\n", f"    {code}\n")
    )
    trial = found.tried(broken, timeout=3 if "while" in code else 120)
    assert trial.verdict == verdict
    assert reason in trial.reason
