"""These tests measure how long variants run. Nothing is timed here: builds are counted at torch's
own builder of C++ kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._inductor.async_compile import AsyncCompile

from fx_explorer.analysis.lineage import kernels_of_variant
from fx_explorer.capture.stepping import after_the_program
from fx_explorer.instruments.diff.compare import figures
from fx_explorer.model import Artifact, Changes, Command, Gate, Measurement, PassFile
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.session.schema import TABLES
from tests.capture.recorded import failures
from tests.capture.stepping.driving import STEPS, Broken, Driven, drive
from tests.capture.stepping.test_region_alone import SCALAR, Regions
from tests.exhaustive import in_exhaustive_runs, with_others

EAGER = Command("again", gate="dynamo", changes=Changes(settings={"compile.backend": "eager"}))


def measure(name: str = "0/0") -> Command:
    return Command("measure", compilation=name)


class Normed(nn.Module):
    """Normed is a model that changes its buffers when it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x).sin()


class Watched:
    """Watched replaces the timing: it runs the code once, and keeps the results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.results: list[object] = []
        monkeypatch.setattr(after_the_program, "_timed", self._timed)

    def _timed(
        self, variant: Any, what: Any, run: Callable[[], object], device: str
    ) -> Measurement:
        self.results.append(run())
        return Measurement(0, variant.row.id, what, 1e-3, 1e-5, 1, device)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the source of every kernel that torch is asked to build; none is built."""
    sources: list[str] = []

    def cpp_pybinding(self: AsyncCompile, argtypes: object, source: str) -> Callable[..., None]:
        sources.append(plain(source))
        return lambda *args: None

    monkeypatch.setattr(AsyncCompile, "cpp_pybinding", cpp_pybinding)
    return sources


def plain(source: str) -> str:
    """Without its number and comments."""
    return re.sub(r"\s+", " ", re.sub(r"//.*|kernel\w*", "", source)).strip()


def sources_of(driven: Driven, variant: str) -> list[str]:
    kernels = [
        kernel
        for kernel in kernels_of_variant(driven.reader, driven.variant(variant))
        if kernel.language == "cpp"
    ]
    texts = {
        kernel.artifact: driven.reader.get(Artifact, kernel.artifact).text for kernel in kernels
    }
    return sorted(plain(driven.reader.text(text)) for text in texts.values())


def counts(reader: SessionReader) -> dict[str, int]:
    return {
        table: reader.count(row_type)
        for row_type, table in TABLES.items()
        if row_type is not Measurement
    }


def test_a_built_variant_computes_what_eager_computes_and_harms_nothing(
    tmp_path: Path, watched: Watched
) -> None:
    """The one test that builds. The program itself has run once, so the statistics of the norm were
    updated once.
    """
    driven = drive(tmp_path / "s.fxs", [measure(), EAGER, measure("0/0~1")], model=Normed)
    assert driven.said("refused") == []
    torch.manual_seed(0)
    fresh, x = Normed(), torch.randn(4, 16)
    expected = fresh(x)
    expected.sum().backward()
    compiled, eager = watched.results[0], watched.results[2]
    torch.testing.assert_close(compiled[0], expected)  # type: ignore[index]
    torch.testing.assert_close(eager[0], expected)  # type: ignore[index]
    assert driven.model is not None
    torch.testing.assert_close(driven.model.state_dict(), fresh.state_dict())
    gradients = [[p.grad for p in model.parameters()] for model in (driven.model, fresh)]
    torch.testing.assert_close(*gradients)


@in_exhaustive_runs
def test_what_is_built_is_the_code_of_the_variant_in_its_parts(
    tmp_path: Path, watched: Watched, built: list[str]
) -> None:
    """Also where a region, or a direction, was lowered with other settings than the rest."""
    regional = Changes(settings={"compile.backend": "regional_inductor"})
    variants = [
        Command("again", gate="partition", direction="backward", changes=SCALAR),
        Command("again", gate="dynamo", changes=regional),
        Command("again", gate="partition", compilation="0/0~2", region="up", changes=SCALAR),
        Command("again", gate="partition", compilation="0/0~3", region="down", direction="forward"),
    ]
    names = ["0/0", "0/0~1", "0/0~2", "0/0~3", "0/0~4"]
    found: dict[str, list[str]] = {}

    def cleared(name: str) -> Callable[[], Command]:
        def take() -> Command:
            built.clear()
            return measure(name)

        return take

    def taken(name: str) -> Callable[[], Command]:
        def take() -> Command:
            found[name] = sorted(set(built))
            return Command("set")

        return take

    each = [step for name in names for step in (cleared(name), taken(name))]
    driven = drive(tmp_path / "s.fxs", [*variants, *each], model=Regions)
    assert {name: sorted(set(sources_of(driven, name))) for name in names} == found
    assert len({tuple(sources) for sources in found.values()}) == len(names)


@in_exhaustive_runs
def test_nothing_of_it_is_recorded_but_the_times(
    tmp_path: Path, watched: Watched, built: list[str]
) -> None:
    without = drive(tmp_path / "a.fxs", [EAGER, Command("again", gate="partition")])
    measured = drive(
        tmp_path / "b.fxs", [measure(), EAGER, measure("0/0~1"), Command("again", gate="partition")]
    )
    assert counts(measured.reader) == counts(without.reader)
    assert measured.codes() == without.codes() == measured.codes("0/0~2")
    assert built
    kinds = [(row.compilation, row.what, row.device) for row in measured.reader.rows(Measurement)]
    first, eager = measured.variant("0/0").id, measured.variant("0/0~1").id
    both = ("forward", "forward+backward")
    assert kinds == [(variant, what, "cpu") for variant in (first, eager) for what in both]


@in_exhaustive_runs
def test_inspecting_goes_on_after_it(tmp_path: Path, watched: Watched, built: list[str]) -> None:
    driven = drive(
        tmp_path / "s.fxs", [measure(), lambda: built.clear() or Command("again", gate="dynamo")]
    )
    assert driven.variant("0/0~1").status == "ok"
    assert built == []


@in_exhaustive_runs
def test_a_median_is_found_without_timing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: list[str]
) -> None:
    monkeypatch.setattr(after_the_program, "MEASURE_S", 0.0)
    driven = drive(tmp_path / "s.fxs", [EAGER, measure("0/0~1")])
    rows = driven.reader.rows(Measurement)
    assert [row.what for row in rows] == ["forward", "forward+backward"]
    assert all(row.median_s > 0 and row.iqr_s >= 0 and row.runs > 0 for row in rows)
    assert built == [], "eager has nothing to build"
    assert "[0/0~1] forward " in driven.said("done")[-1]


def test_the_comparison_and_the_report_say_what_was_measured(
    tmp_path: Path, watched: Watched, built: list[str]
) -> None:
    driven = drive(tmp_path / "s.fxs", [EAGER, measure("0/0~1")])
    compared = figures(driven.reader, driven.variant("0/0"), driven.variant("0/0~1"))
    shown = {
        figure.what: (figure.left, figure.right)
        for figure in compared
        if figure.what.startswith("running")
    }
    took = ("not measured", "1 ms ± 5 µs")
    assert shown == {"running took, forward": took, "running took, with backward": took}
    report: Any = json_report(driven.reader)
    assert report["compilations"][0]["measured"] == {}
    assert report["variants"][0]["measured"]["forward"] == {
        "median_s": 1e-3,
        "iqr_s": 1e-5,
        "runs": 1,
        "device": "cpu",
    }


@in_exhaustive_runs
def test_a_run_that_fails_is_refused_with_the_reason_and_the_worker_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built: list[str]
) -> None:
    def fails(*args: object) -> None:
        raise RuntimeError("no memory left")

    monkeypatch.setattr(after_the_program, "_timed", fails)
    driven = drive(tmp_path / "s.fxs", [measure(), Command("again", gate="partition")])
    assert driven.said("refused") == ["[0/0] could not be measured: RuntimeError: no memory left"]
    (failure,) = failures(driven.reader)
    assert (failure.where, failure.compilation) == ("measuring", driven.variant("0/0").id)
    assert "no memory left" in driven.reader.text(failure.text)
    assert driven.codes("0/0~1") == driven.codes()


@in_exhaustive_runs
def test_a_variant_that_was_left_cannot_be_measured(tmp_path: Path) -> None:
    driven = drive(
        tmp_path / "s.fxs",
        [*STEPS[:4], Command("again", gate="dynamo"), Command("go"), measure()],
        pause="step",
    )
    assert "[0/0] was not compiled completely" in driven.said("refused")[0]


def test_while_something_is_compiled_nothing_is_measured(tmp_path: Path) -> None:
    driven = drive(tmp_path / "s.fxs", [measure(), Command("go")], pause="step")
    assert "once the program has ended" in driven.said("refused")[0]
    deferred = drive(tmp_path / "t.fxs", [measure(), Command("go")], pause="dynamo")
    assert "once the program has ended" in deferred.said("refused")[0]


@in_exhaustive_runs
def test_a_variant_is_not_measured_with_options_that_were_set_after_it(tmp_path: Path) -> None:
    later = Command("set", changes=Changes(settings={"inductor.max_fusion_size": 3}))
    driven = drive(tmp_path / "s.fxs", [later, measure()])
    assert "inductor.max_fusion_size was set after [0/0]" in driven.said("refused")[0]
    assert not driven.reader.rows(Measurement)


@in_exhaustive_runs
def test_each_graph_of_a_broken_program_is_measured_by_its_name(
    tmp_path: Path, watched: Watched, built: list[str]
) -> None:
    driven = drive(
        tmp_path / "s.fxs", [measure("0/0"), measure("1/0"), measure("9/9")], model=Broken
    )
    owners = {row.compilation for row in driven.reader.rows(Measurement)}
    assert owners == {driven.variant("0/0").id, driven.variant("1/0").id}
    assert "9/9" in driven.said("refused")[-1]


@in_exhaustive_runs
@pytest.mark.parametrize("gate", with_others(["post_grad"], ["dynamo"]))
def test_a_pass_of_the_variant_is_in_what_is_measured(
    tmp_path: Path, watched: Watched, built: list[str], gate: Gate
) -> None:
    """With the backend eager where the pass is one of Dynamo's graph: nothing but that graph is
    run.
    """
    file = tmp_path / "cosine.py"
    file.write_text(
        "import torch\n\ndef pass_(gm):\n    for node in gm.graph.nodes:\n"
        "        if node.target is torch.ops.aten.sin.default:\n            node.target = torch.ops.aten.cos.default\n"
        "        if node.op == 'call_method' and node.target == 'sin':\n            node.target = 'cos'\n"
    )
    settings: dict[str, object] = {"compile.backend": "eager"} if gate == "dynamo" else {}
    again = Command(
        "again", gate=gate, changes=Changes(settings, passes=(PassFile(gate, str(file)),))
    )
    driven = drive(tmp_path / "s.fxs", [again, measure("0/0~1")], model=Normed)
    assert driven.said("refused") == []
    if gate == "dynamo":
        torch.manual_seed(0)
        model, x = Normed(), torch.randn(4, 16)
        torch.testing.assert_close(watched.results[0][0], model.norm(x).cos())  # type: ignore[index]
    else:
        assert sorted(set(built)) == sorted(set(sources_of(driven, "0/0~1")))
        assert sorted(set(built)) != sorted(set(sources_of(driven, "0/0")))


@in_exhaustive_runs
def test_a_busy_machine_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watched: Watched, built: list[str]
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("os.getloadavg", lambda: (9.6, 0.0, 0.0))
    busy = drive(tmp_path / "a.fxs", [EAGER, measure("0/0~1")])
    assert "while 10 processes shared 2 CPUs: measure again" in busy.said("done")[-1]
    monkeypatch.setattr("os.getloadavg", lambda: (2.0, 0.0, 0.0))
    idle = drive(tmp_path / "b.fxs", [EAGER, measure("0/0~1")])
    assert "(median of 1 runs on cpu); building" in idle.said("done")[-1]
