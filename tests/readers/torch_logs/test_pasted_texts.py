"""These tests read texts as people paste them, with one warning or one recompile in them: missing
parts are reported as missing.

tests/data/torch_logs/*_only.txt and two_ranks.txt are written after public reports, in torch's
format.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.instruments.ranks.compared import compare
from fx_explorer.instruments.ranks.sentences import agreed, headline
from fx_explorer.instruments.recompiles.causes import limit_hits
from fx_explorer.overview.conditions import checks
from fx_explorer.overview.overview import overview
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

TEXTS = Path(__file__).parents[2] / "data" / "torch_logs"

NEGATIVES = ("No graph", "No kernels", "nothing of this program", "Dynamo captured no tensor")


def opened(text: Path, folder: Path) -> SessionReader:
    read_text(text, folder / "s.fxs")
    return SessionReader(folder / "s.fxs")


@pytest.mark.parametrize("name", ["recompile_only.txt", "limit_only.txt", "two_ranks.txt"])
def test_what_a_text_cannot_know_is_not_told_as_a_negative(name: str, tmp_path: Path) -> None:
    with opened(TEXTS / name, tmp_path) as reader:
        facts = overview(reader)
        row = reader.rows(model.Compilation)[0]
    told = " ".join(f"{fact.text} {fact.detail}" for fact in facts)
    assert not [one for one in NEGATIVES if one in told]
    assert "This text does not have: graphs, graph breaks" in told
    assert set((row.missing_stages or {}).values()) == {"not in this text"}


def test_a_recompile_names_the_function_and_its_line(tmp_path: Path) -> None:
    with opened(TEXTS / "recompile_only.txt", tmp_path) as reader:
        (row,) = reader.rows(model.Compilation)
        told = [fact.text for fact in overview(reader)]
    assert (row.function, row.file, row.line) == (
        "model",
        "/tmp/ipykernel_2002586/874691697.py",
        9,
    )
    assert any(text.startswith("model was recompiled: y is no longer 1.5") for text in told)


def test_the_warning_at_the_limit_is_known_whatever_stands_before_it(tmp_path: Path) -> None:
    warning = (TEXTS / "limit_only.txt").read_text()
    long = tmp_path / "stderr.txt"
    long.write_text("step 1 loss 3.4\n" * 20_000 + warning)
    for text in (TEXTS / "limit_only.txt", long):
        assert kind_of_file(text).kind == "torch_logs"
        with opened(text, tmp_path) as reader:
            (hit,) = limit_hits(reader)
        (tmp_path / "s.fxs").unlink()
        assert (hit.function, hit.line, hit.limit, hit.compiled) == (
            "post_orthogonalize",
            621,
            8,
            8,
        )
        assert hit.is_error  # the traceback below it is of FailOnRecompileLimitHit
        assert hit.change == "size 1 of X[0] was 640 and now is 8"
        assert "parameter" in hit.remedy


def test_a_program_that_quotes_a_warning_is_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"'''\n{'#' * 5000}\n{(TEXTS / 'limit_only.txt').read_text()}'''\n")
    assert kind_of_file(program).kind == "text"


def test_two_ranks_that_recompiled_alike_do_not_diverge() -> None:
    ranks = compare([TEXTS / "two_ranks.txt"])
    assert ranks.first is None
    assert headline(ranks) == (
        "Both ranks did the same until the end of the text, 1 compilation each."
    )
    assert "graph breaks" not in " ".join(agreed(ranks)[0])
    assert "Not in this text: ranks 0 and 2" in ranks.notes


def test_a_limit_of_what_was_not_printed_is_not_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXTS / "recompile_only.txt"
    with opened(text, tmp_path) as reader:
        judged = checks(reader, {"max-graph-breaks": 0, "max-recompiles": 1})
    assert [one.is_met for one in judged] == [False, True]
    assert "This text does not have: graph breaks" in judged[0].measured
    assert cli.main(["report", str(text)]) == 0
    assert "graph breaks" in json.loads(capsys.readouterr().out)["not_in_text"]


BREAK = """\
V0318 23:04:20.093000 2002586 torch/_dynamo/symbolic_convert.py:533] [0/0] [__graph_breaks] Graph break in user code at /tmp/a.py:5
V0318 23:04:20.093000 2002586 torch/_dynamo/symbolic_convert.py:533] [0/0] [__graph_breaks] Reason: Unsupported: Tensor.item
V0318 23:04:20.093000 2002586 torch/_dynamo/symbolic_convert.py:533] [0/0] [__graph_breaks] User code traceback:
V0318 23:04:20.093000 2002586 torch/_dynamo/symbolic_convert.py:533] [0/0] [__graph_breaks]   File "/tmp/a.py", line 5, in f
V0318 23:04:20.093000 2002586 torch/_dynamo/symbolic_convert.py:533] [0/0] [__graph_breaks]     x.item()
"""


def test_what_a_break_costs_is_not_known_without_the_graphs(tmp_path: Path) -> None:
    (tmp_path / "break.txt").write_text(BREAK)
    with opened(tmp_path / "break.txt", tmp_path) as reader:
        told = " ".join(fact.detail for fact in overview(reader))
    assert "What it costs: not in this text." in told


def test_what_torchrun_prints_is_no_log_of_the_compiler(tmp_path: Path) -> None:
    text = tmp_path / "stderr.txt"
    text.write_text(
        "W0318 23:04:20.093000 2002586 torch/distributed/run.py:793] \n"
        "W0318 23:04:20.093000 2002586 torch/distributed/run.py:793] Setting OMP_NUM_THREADS\n"
    )
    assert kind_of_file(text).kind == "text"


@pytest.mark.parametrize(
    ("name", "limit", "compilation"),
    [
        ("limit_without_prefix.txt", 8, "0/8"),
        ("limit_torch_2_1.txt", 8, "0/8"),
        ("limit_torch_2_0.txt", 64, "0/64"),
    ],
)
def test_the_warning_at_the_limit_needs_nothing_of_torchs_formatter(
    name: str, limit: int, compilation: str, tmp_path: Path
) -> None:
    assert kind_of_file(TEXTS / name).kind == "torch_logs"
    with opened(TEXTS / name, tmp_path) as reader:
        (hit,) = limit_hits(reader)
        (row,) = [row for row in reader.rows(model.Compilation) if "/" in row.name]
        told = " ".join(fact.text for fact in overview(reader))
    assert (hit.function, hit.file, hit.line) == ("forward", "/home/me/model.py", 14)
    assert (hit.limit, hit.compiled, row.name) == (limit, limit, compilation)
    assert hit.change == "size 0 of x was 8 and now is 9"
    assert not [one for one in NEGATIVES if one in told]


def test_two_such_warnings_are_of_two_functions(tmp_path: Path) -> None:
    warning = (TEXTS / "limit_torch_2_0.txt").read_text()
    text = tmp_path / "both.log"
    text.write_text(f"> {warning}\nloss 3\n{warning.replace('model.py:14', 'other.py:3')}")
    with opened(text, tmp_path) as reader:
        hits = limit_hits(reader)
    assert sorted(hit.file for hit in hits) == ["/home/me/model.py", "/home/me/other.py"]


def test_a_warning_that_logging_prints_by_itself_is_known(tmp_path: Path) -> None:
    bare = (TEXTS / "limit_without_prefix.txt").read_text()
    text = tmp_path / "stderr.txt"
    text.write_text(
        bare.replace("torch._dynamo hit", "WARNING:torch._dynamo.convert_frame:torch._dynamo hit")
    )
    assert kind_of_file(text).kind == "torch_logs"
    with opened(text, tmp_path) as reader:
        assert [hit.line for hit in limit_hits(reader)] == [14]


def test_a_recompile_of_an_earlier_torch_has_its_function_and_reason(tmp_path: Path) -> None:
    with opened(TEXTS / "recompile_torch_2_1.txt", tmp_path) as reader:
        (row,) = reader.rows(model.Compilation)
        told = " ".join(f"{fact.text} {fact.detail}" for fact in overview(reader))
    assert (row.name, row.function, row.file, row.line) == (
        "0/1",
        "forward",
        "/home/me/model.py",
        14,
    )
    assert "forward was recompiled: size 0 of x was 8" in told
    assert "forward of /home/me/model.py:14" in told


def test_a_recompile_says_where_its_function_is(tmp_path: Path) -> None:
    with opened(TEXTS / "recompile_only.txt", tmp_path) as reader:
        told = " ".join(fact.detail for fact in overview(reader))
    assert "[6/1] after [6/0], model of /tmp/ipykernel_2002586/874691697.py:9" in told
