"""These tests check the results of 16 bits that are said to stay in float32 in a kernel, against the
code that Inductor generated, and the command that compares results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fx_explorer import model
from fx_explorer.answers.of_numerics import of_numerics
from fx_explorer.answers.what_was_compiled import of_findings
from fx_explorer.instruments.numerics.left_out_rounding import left_out_rounding
from fx_explorer.instruments.options.explained_options import WORDS
from fx_explorer.session import SessionReader
from tests.capture.recorded import record


def chained(x: torch.Tensor) -> torch.Tensor:
    return ((x * 1.5 + 100.0) - 100.0).abs() * x


def recorded(path: Path, dtype: torch.dtype, **options: Any) -> SessionReader:
    def program(compile_it: Callable[[Any], Any]) -> None:
        with torch._inductor.config.patch(options):
            compile_it(chained)(torch.randn(64, dtype=dtype))

    return record(path, program)


def casts_in_code(session: SessionReader) -> int:
    """Return how often the generated kernel rounds to bfloat16."""
    (kernel,) = [row for row in session.rows(model.Kernel) if row.artifact]
    code = session.text(session.get(model.Artifact, kernel.artifact).text)
    return code.count("convert<at::BFloat16")


def test_results_that_a_kernel_keeps_in_float32_are_counted(tmp_path: Path) -> None:
    with recorded(tmp_path / "s.fxs", torch.bfloat16) as session:
        assert casts_in_code(session) == 1, "it rounds what it stores"
        rounding = left_out_rounding(session)
        assert rounding is not None
        # mul, add and sub; abs rounds nothing, and the last product is stored.
        assert [node.target.split(".")[1] for node in rounding.nodes] == ["mul", "add", "sub"]
        assert "3 results of bfloat16" in str(of_findings(session).figures["rounding"])
        assert "emulate_precision_casts = True" in str(of_findings(session).figures["rounding"])
        assert "3 results of bfloat16" in of_numerics(session).text


def test_nothing_is_said_where_torch_rounds_as_eager_mode(tmp_path: Path) -> None:
    path = tmp_path / "s.fxs"
    with recorded(path, torch.bfloat16, emulate_precision_casts=True) as session:
        assert casts_in_code(session) > 1
        assert left_out_rounding(session) is None


def test_float32_is_not_rounded_at_all(tmp_path: Path) -> None:
    with recorded(tmp_path / "s.fxs", torch.float32) as session:
        assert left_out_rounding(session) is None


def test_the_option_is_found_by_what_it_does() -> None:
    assert "rounds to" in WORDS["inductor.emulate_precision_casts"].does.casefold()
