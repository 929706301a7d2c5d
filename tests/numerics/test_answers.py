"""These tests check the sentences, formats and exit codes of ``fx-explorer numerics`` on what a run may
learn, and what it answers to bad input.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.errors import NotASessionError
from fx_explorer.instruments.numerics.figures import add_numerics, begin_session, numerics_of
from fx_explorer.instruments.numerics.report import FORMATS, numerics_text
from fx_explorer.instruments.numerics.verdict import is_wrong, verdict
from fx_explorer.model import (
    CaptureRequest,
    Numerics,
    NumericsBirth,
    NumericsFinding,
    NumericsNode,
    NumericsRun,
)
from fx_explorer.model.numerics import META
from fx_explorer.session import SessionReader, SessionWriter

EQUAL = NumericsRun("inductor", "program", agreement="equal")
WRONG = NumericsRun(
    "inductor", "program", agreement="differs", where="output 0", place="[3]", largest=2.0,
    error=1.5, eager_error=1e-7,
)  # fmt: skip
NODES = tuple(
    NumericsNode(i, f"n{i}", "aten.add.Tensor", "differs" if i > 7 else "equal", "/x/m.py", 4)
    for i in range(20)
)
FINDING = NumericsFinding(
    "code", "[0/0] forward", 0, "n8", "aten.add.Tensor", "/x/m.py", 4, "y = a + b",
    "cpp_fused_add_0", 12, "auto tmp2 = tmp0 - tmp1;", ("It was tried.",), nodes=NODES,
)  # fmt: skip
FOUND = Numerics("Net", (WRONG,), FINDING, ("CompilerBisector (3 trials): x.",), graphs=1)


def test_the_answer_names_operator_line_graph_and_kernel() -> None:
    answer, operator, *rest = verdict(FOUND)
    assert answer == (
        "inductor differs from eager mode: output 0 [3] by 2; error 1.5 against float64, eager "
        "1e-07."
    )
    assert operator == (
        "The first operator that differs is n8 (aten.add.Tensor) at m.py:4 (y = a + b), in "
        "Inductor's generated code of graph [0/0] forward, kernel cpp_fused_add_0 line 12: auto "
        "tmp2 = tmp0 - tmp1;."
    )
    assert rest == ["It was tried.", "CompilerBisector (3 trials): x."]
    assert is_wrong(FOUND)


def test_more_exact_than_eager_mode_is_no_fault() -> None:
    run = replace(WRONG, agreement="within_error", error=1e-4, eager_error=1e-2)
    numerics = Numerics("Net", (run,), graphs=1)
    assert verdict(numerics)[0].startswith("No fault: inductor is more exact than eager mode")
    assert not is_wrong(numerics)


def test_what_tf32_alone_makes_is_no_fault() -> None:
    words = (
        "TF32 causes the difference: with TF32 switched off gradient of x differs by up to 1e-06"
    )
    numerics = Numerics("Net", (replace(WRONG, agreement="within_error", words=words),), graphs=1)
    assert verdict(numerics)[0] == (
        f"No fault: inductor and eager mode round to TF32 differently; {words}."
    )
    assert not is_wrong(numerics)


def test_a_compiled_program_that_fails_is_wrong() -> None:
    run = NumericsRun("inductor", "program", "failed", "its process died (exit status 7)")
    numerics = Numerics("Net", (run,), problem="It fails differently each time: it ran to its end.")
    assert is_wrong(numerics)
    assert verdict(numerics) == [
        "inductor fails: its process died (exit status 7)",
        "It fails differently each time: it ran to its end.",
    ]


def test_random_numbers_are_named_and_no_fault() -> None:
    finding = NumericsFinding("random", node="rand", operation="aten.rand", file="/x/m.py", line=9)
    numerics = Numerics("Net", (EQUAL,), finding, graphs=1)
    assert verdict(numerics)[1] == (
        "rand (aten.rand) at m.py:9 draws random numbers, and Inductor uses another generator: "
        "with torch._inductor.config.fallback_random they equal eager mode's (tried)."
    )
    assert not is_wrong(numerics)


def test_where_nan_is_made_is_said() -> None:
    birth = NumericsBirth("eager", "NaN", "log", "aten.log.default", "/x/m.py", 6)
    numerics = Numerics("Net", (EQUAL,), NumericsFinding("", births=(birth,)), graphs=1)
    assert verdict(numerics)[1] == (
        "In eager mode the first NaN comes from log (aten.log.default), made of values that are "
        "not NaN at m.py:6."
    )


def test_text_shows_the_nodes_around_the_first_that_differs_and_all_if_asked() -> None:
    text = numerics_text(FOUND)
    assert "n13" in text
    assert "n14" not in text
    assert "n19" in numerics_text(FOUND, whole=True)


@pytest.mark.parametrize("name", list(FORMATS))
def test_each_format_has_the_operator(name: str) -> None:
    assert "aten.add.Tensor" in FORMATS[name](FOUND)


def test_a_session_keeps_what_was_learned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tmp_path / "n.fxs"
    with SessionWriter(session) as writer:
        begin_session(writer, CaptureRequest("m.py", ""))
    add_numerics(session, FOUND)
    with SessionReader(session) as reader:
        assert numerics_of(reader) == FOUND
    assert cli.main(["numerics", str(session), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["finding"]["node"] == "n8"
    assert cli.main(["numerics", str(session), "--no-train"]) == 2
    assert "is already a measurement" in capsys.readouterr().err


def test_a_session_without_numerics_says_how_to_make_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = tmp_path / "n.fxs"
    with SessionWriter(session) as writer:
        begin_session(writer, CaptureRequest("m.py", ""))
    assert cli.main(["numerics", str(session)]) == 2
    assert "has no numerics; make them with" in capsys.readouterr().err


@pytest.mark.parametrize(
    "entry", [{"target": 3}, {"target": "x", "runs": [{"name": 1}]}, {"finding": {}}, [], "x"]
)
def test_a_damaged_entry_is_an_error_with_words(tmp_path: Path, entry: object) -> None:
    session = tmp_path / "n.fxs"
    with SessionWriter(session) as writer:
        begin_session(writer, CaptureRequest("m.py", ""))
        writer.set_meta(META, entry)
    with SessionReader(session) as reader, pytest.raises(NotASessionError, match="numerics"):
        numerics_of(reader)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--nodes", "--format", "json"), "--nodes works with text"),
        (("--mode", "max-autotune", "--option", "a=1"), "cannot be combined"),
        (("--minify", "x.txt"), "its name ends with .py"),
        (("--minify", "nowhere/x.py"), "there is no folder"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.py").write_text("model = abs\n")
    assert cli.main(["numerics", "m.py", *options]) == 2
    assert words in capsys.readouterr().err
