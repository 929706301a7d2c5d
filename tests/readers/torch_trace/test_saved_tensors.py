"""These tests hold what a log's graphs say is saved for the backward against captures of the same
programs, and the sizes of symbols against Python.

tests/data/saved_tensors/NAME.log.gz has the records that TORCH_TRACE wrote of NAME.py.txt with torch
2.13 on a CPU, as far as graphs need them; NAME.json has the saved tensors of fx-explorer's capture of
the same program, corrected by what Inductor did with their storages.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.instruments.memory.saved_values import saved_total
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.readers.torch_trace.read_log import read_log
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.size_expressions import size_of

LOGS = Path(__file__).parents[2] / "data" / "torch_trace"

SAVED = LOGS.parent / "saved_tensors"

MODELS = sorted(path.name.removesuffix(".log.gz") for path in SAVED.glob("*.log.gz"))


def rows_of(reader: SessionReader) -> list[list[object]]:
    names = {row.id: row.name for row in reader.rows(model.Compilation)}
    rows: list[list[object]] = [
        [
            names[row.compilation],
            row.name,
            row.kind,
            row.dtype,
            list(row.shape),
            row.size_bytes,
            row.storage_bytes,
            row.output,
        ]
        for row in reader.rows(model.SavedTensor)
    ]
    return sorted(rows, key=str)


@pytest.mark.parametrize("name", MODELS)
def test_a_log_has_the_saved_tensors_that_a_capture_has(name: str, tmp_path: Path) -> None:
    read_log(SAVED / f"{name}.log.gz", tmp_path / "s.fxs")
    captured = json.loads((SAVED / f"{name}.json").read_text())
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert rows_of(reader) == captured["rows"]
        assert saved_total(reader).size_bytes == captured["total_bytes"]


def test_the_models_have_a_break_and_symbolic_sizes() -> None:
    assert {"mlp", "broken", "dynamic"} <= set(MODELS)


def test_the_view_of_memory_shows_them_and_says_what_a_log_does_not(tmp_path: Path) -> None:
    read_log(LOGS / "h200_gpt_block_train.log.gz", tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        table = TABLES["memory"](reader)
    assert len(table.rows) == 91
    assert "does not say why a value is saved" in table.notice


def test_a_check_of_saved_bytes_is_known_where_the_graphs_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(LOGS / "h200_gpt_block_train.log.gz")
    assert cli.main(["check", log, "--max-saved-bytes", "95MB"]) == 0
    assert cli.main(["check", log, "--max-saved-bytes", "60MB"]) == 1
    assert "92.5 MB saved for the backward" in capsys.readouterr().out
    text = str(LOGS.parent / "torch_logs" / "recompile_only.txt")
    assert cli.main(["check", text, "--max-saved-bytes", "80MB"]) == 1
    assert "This text does not say which values the forward saves" in capsys.readouterr().out


def test_a_text_with_aot_graphs_has_them(tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    packed = LOGS.parent / "torch_logs" / "crashes" / "backward.logs.txt.gz"
    text.write_bytes(gzip.decompress(packed.read_bytes()))
    read_text(text, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        saved = reader.rows(model.SavedTensor)
    assert [(row.name, row.shape, row.size_bytes, row.output) for row in saved] == [
        ("primals_1", ("4",), 16, -1)
    ]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12", 12),
        ("s77", 6),
        ("2*s77", 12),
        ("(s77*s27)//4", 15),
        ("(s77//4) + 1", 2),
        ("s77**2", 36),
        ("Max(1, s27)", 10),
        ("FloorDiv(s27, 3)", 3),
        ("Mod(s27, 4)", 2),
        ("u0", None),
        ("s77/2", None),
        ("s77//(s27 - 10)", None),
        ("(" * 500 + "s77" + ")" * 500, None),
        ("9**9**9", None),
        ("__import__('os')", None),
    ],
)
def test_a_size_is_computed_or_not_known(expression: str, value: int | None) -> None:
    assert size_of(expression, {"s77": 6, "s27": 10}) == value
