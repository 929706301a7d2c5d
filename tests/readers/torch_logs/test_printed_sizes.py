"""These tests check what is read of TORCH_LOGS=dynamic: the line that specialized a size."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.answers.answer import Json
from fx_explorer.answers.what_was_compiled import of_sizes
from fx_explorer.instruments.guards.symbols import guarded_range
from fx_explorer.model import GuardCheck
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.printed_guard_tree import read_checks

HEAD = "I1130 19:03:05.{}000 30248 torch/fx/experimental/symbolic_shapes.py:{}] [0/0] "

PRINTED = "\n".join(
    HEAD.format(*place) + text
    for place, text in (
        (
            (659, 5743),
            "create_symbol s77 = 8 for L['x'].size()[0] [2, int_oo] if x.shape[0] == 8:  "
            "# mp/c/dyn.py:4 in f (_dynamo/variables/builder.py:4960 in <lambda>), for more info",
        ),
        (
            (671, 5743),
            "create_symbol s27 = 4 for L['x'].size()[1] [2, int_oo] if x.shape[0] == 8:  "
            "# mp/c/dyn.py:4 in f (_dynamo/variables/builder.py:4960 in <lambda>), for more info",
        ),
        (
            (763, 8081),
            "eval Eq(s77, 8) [guard added] if x.shape[0] == 8:  # mp/c/dyn.py:4 in f "
            "(_dynamo/variables/tensor.py:2606 in evaluate_expr), for more info run with TORCH",
        ),
        ((764, 7674), "set_replacement s77 = 8 (range_refined_to_singleton) VR[8, 8]"),
        (
            (794, 8081),
            "eval s27 > 3 [guard added] assert x.shape[1] > 3  # mp/c/dyn.py:8 in f "
            "(_dynamo/symbolic_convert.py:884 in inner), for more info run with TORCHDYNAMO",
        ),
    )
)
"""What ``TORCH_LOGS=dynamic`` of torch 2.13.0 printed, of a function with ``dynamic=True``."""

FORMER = (
    "I0315 10:00:00.000000 7 torch/fx/experimental/symbolic_shapes.py:5521] [0/0] eval Eq(s0, 8) "
    "[guard added] at x.py:12 in f (_dynamo/variables/tensor.py:1022 in evaluate_expr), for more\n"
)


def rows_of(text: str, folder: Path) -> list[Json]:
    (folder / "log.txt").write_text(text)
    read_text(folder / "log.txt", folder / "log.fxs")
    with SessionReader(folder / "log.fxs") as reader:
        answer = of_sizes(reader)
        return [*answer.rows]


def test_the_line_that_specialized_a_size_is_read(tmp_path: Path) -> None:
    fixed, dynamic = rows_of(PRINTED, tmp_path)
    assert (fixed["name"], fixed["user_name"], fixed["became"]) == ("s77", "x.size(0)", "8")
    assert fixed["fixed_at"] == {"file": "mp/c/dyn.py", "line": 4}
    assert (dynamic["name"], dynamic["became"], dynamic["fixed_at"]) == ("s27", None, None)


@pytest.mark.parametrize(
    "text",
    [
        FORMER,
        FORMER.replace("eval Eq(s0, 8) [guard added]", "Specializing s0 to 8"),
        f"> {FORMER}",
    ],
)
def test_a_single_line_is_enough(text: str, tmp_path: Path) -> None:
    (row,) = rows_of(text, tmp_path)
    assert (row["name"], row["became"]) == ("s0", "8")
    assert row["fixed_at"] == {"file": "x.py", "line": 12}


def test_a_text_without_sizes_says_what_prints_them(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(FORMER.replace("eval Eq(s0, 8) [guard added]", "create_env"))
    read_text(tmp_path / "log.txt", tmp_path / "log.fxs")
    with SessionReader(tmp_path / "log.fxs") as reader:
        answer = of_sizes(reader)
    assert not answer.rows
    assert "TORCH_LOGS=dynamic" in answer.text


def test_a_number_that_became_a_symbol_is_read(tmp_path: Path) -> None:
    text = HEAD.format(659, 5743) + (
        "create_symbol zf8 = 0.0005 for L['self'].param_groups[0]['lr'] [-oo, oo] for group in "
        "self.param_groups:  # optim/adam.py:229 in step (_dynamo/variables/builder.py:4960)"
    )
    (row,) = rows_of(text, tmp_path)
    assert (row["name"], row["hint"], row["range"]) == ("zf8", "0.0005", "[-oo, oo]")
    assert (row["file"], row["line"]) == ("optim/adam.py", 229)


def test_a_size_has_the_upper_bound_that_its_guard_prints() -> None:
    code = "2 <= L['x'].size()[1] <= 4096"
    check = next(read_checks(f"+- LAMBDA_GUARD: {code}  # (unknown var s2, please file a bug)"))
    assert (check.code, check.note) == (code, "")
    guard = GuardCheck(0, 1, 0, 0, check.kind, "", "shapes", check.code)
    assert guarded_range([guard], ["L['x'].size()[1]"]) == "[2, 4096]"
    assert guarded_range([guard], ["L['y'].size()[1]"]) == ""
