"""These tests check what a comparison says of two amounts, of two sides, and of a warm and a cold
run. Expected words are counted by hand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.measured_times import (
    ComparedFigure,
    count_figure,
    one_timing_figure,
    run_time_figure,
    size_figure,
)
from fx_explorer.analysis.other_variants import describe_active_variant
from fx_explorer.instruments.diff.compare import caches_of, figures, warmth
from fx_explorer.instruments.diff.screen import headings, original_first
from fx_explorer.instruments.diff.two_sessions import figures_of_both
from fx_explorer.session import SessionReader, SessionWriter
from tests.sessions import write_training_step


@pytest.mark.parametrize(
    ("figure", "change"),
    [
        (count_figure("kernels", 12, 9), "−3 (−25 %)"),
        (count_figure("kernels", 9, 12, wanted="less"), "+3 (+33 %), worse"),
        (count_figure("recompiles", 2, 0, wanted="less"), "−2 (−100 %), better"),
        (count_figure("kernels", 0, 4), "+4"),
        (count_figure("nodes", 10, 2_010), "+2,000 (×201)"),
        (count_figure("kernels", 3, 3, wanted="less"), ""),
        (size_figure("kept", 2_000_000, 1_500_000), "−500.0 kB (−25 %), better"),
        (one_timing_figure("compiling took", 2.0, 2.05), "+50 ms (+2.5 %), one timing each"),
        (
            one_timing_figure("compiling took", 2.0, 2.001),
            "",
        ),  # both are 2.00 s to whoever reads it
        (run_time_figure("running took", (1e-3, 2e-5), (0.8e-3, 2e-5)), "−200 µs (−20 %), better"),
        (run_time_figure("running took", (1e-3, 2e-4), (0.9e-3, 2e-4)), "within the spread"),
    ],
)
def test_a_difference_has_a_sign_a_percentage_and_a_word_for_its_colour(
    figure: ComparedFigure, change: str
) -> None:
    assert figure.change == change


def with_variants(path: Path, **of_second: object) -> SessionReader:
    """An original and two variants of it, the second with options of its own."""
    write_training_step(path)
    with SessionWriter(path) as writer:
        first = SessionReader(path).rows(model.Compilation)[0]
        writer.add(model.Setting(0, "inductor", "max_fusion_size", "int", "64", "64", ""))
        settings = [
            {"inductor.max_fusion_size": 8},
            {"inductor.max_fusion_size": 8, "compile.backend": "eager"},
        ]
        for number, changed in enumerate(settings, start=1):
            fields: dict[str, object] = {
                "changes": model.Changes(dict(changed)).to_json(),
                **(of_second if number == 2 else {}),
            }
            row = replace(
                first,
                id=0,
                name=f"0/0~{number}",
                variant_of="0/0",
                variant_from="dynamo",
                in_use=False,
            )
            writer.add(replace(row, **fields))  # type: ignore[arg-type]
    return SessionReader(path)


def test_columns_are_headed_with_what_differs_and_not_with_what_both_were_given(
    tmp_path: Path,
) -> None:
    with with_variants(tmp_path / "s.fxs") as reader:
        original, one, two = reader.rows(model.Compilation)
        assert headings(reader, original, one) == (
            "max_fusion_size",
            "original: 64",
            "variant 1: 8",
        )
        assert headings(reader, one, two) == (
            "backend",
            'variant 1: "inductor"',
            'variant 2: "eager"',
        )
        assert headings(reader, original, two) == (
            "",
            'original: max_fusion_size = 64, backend = "inductor"',
            'variant 2: max_fusion_size = 8, backend = "eager"',
        )
        assert original_first(two, original) == (original, two)


def test_a_variant_compiled_again_without_a_change_is_headed_with_where_it_set_out_from(
    tmp_path: Path,
) -> None:
    with with_variants(tmp_path / "s.fxs", changes={}, variant_from="joint") as reader:
        original, _, two = reader.rows(model.Compilation)
        assert headings(reader, original, two) == (
            "",
            "original",
            "variant 2: compiled again from the joint graph",
        )


def test_a_cold_compile_is_told_from_a_warm_one_and_neither_is_called_better(
    tmp_path: Path,
) -> None:
    with with_variants(tmp_path / "s.fxs", duration_s=0.5) as reader:
        original, one, two = reader.rows(model.Compilation)
        assert not warmth(reader, original).is_warm
        assert warmth(reader, two).words == "warm: its process had compiled before, from Dynamo on"
        told = {one.what.strip(): one for one in figures(reader, original, two)}
        assert told["compiling took"].change == "cold beside warm"
        assert told["began"].left == "cold: the first compilation of its process"
        told = {one.what.strip(): one for one in figures(reader, one, two)}
        assert told["compiling took"].change == "−1.50 s (−75 %), one timing each"


def test_a_capture_with_hits_in_torch_s_caches_is_told_from_one_without(tmp_path: Path) -> None:
    for name, events in (
        ("cold", ["fx_graph_cache_miss"]),
        ("warm", ["fx_graph_cache_hit", "aotautograd_cache_hit"]),
    ):
        write_training_step(tmp_path / f"{name}.fxs")
        with SessionWriter(tmp_path / f"{name}.fxs") as writer:
            request = model.CaptureRequest("mlp.py", "s.fxs", use_caches=True)
            writer.set_meta("request", json.loads(request.to_json()))
            writer.add_all(model.Metric(0, 1, "cache_event", json.dumps(event)) for event in events)
            if name == "warm":
                writer.update(
                    replace(
                        SessionReader(tmp_path / "warm.fxs").rows(model.Compilation)[0],
                        duration_s=9.0,
                    )
                )
    with SessionReader(tmp_path / "cold.fxs") as cold, SessionReader(tmp_path / "warm.fxs") as warm:
        assert (caches_of(cold), caches_of(warm)) == ("used, no hit", "used, 2 hits")
        (one,) = warm.rows(model.Compilation)
        assert warmth(warm, one).words == "warm: 2 graphs came from torch's caches"
        told = {figure.what: figure.change for figure in figures_of_both(cold, warm)}
        assert told["torch's compile caches"] == "differs"
        assert told["compiling took"] == "cold beside warm"


def cold_and_warm(folder: Path) -> tuple[SessionReader, SessionReader]:
    """A program twice: the second time its graph came from torch's cache, so that only Dynamo was
    seen.
    """
    write_training_step(folder / "cold.fxs")
    with SessionWriter(folder / "warm.fxs") as writer:
        reason = "taken from torch's cache (fx_graph_cache_hit)"
        missing = dict.fromkeys(("forward", "backward", "output_code", "kernel"), reason)
        compilation = model.Compilation(0, "0/0", 0, 0, "f", "/m.py", 1, status="ok")
        writer.add(replace(compilation, missing_stages=missing))
        writer.add(model.Metric(0, 1, "cache_event", json.dumps("fx_graph_cache_hit")))
    return SessionReader(folder / "cold.fxs"), SessionReader(folder / "warm.fxs")


def test_what_one_side_did_not_do_is_neither_better_nor_worse(tmp_path: Path) -> None:
    cold, warm = cold_and_warm(tmp_path)
    with cold, warm:
        for sides in ((cold, warm), (warm, cold)):
            told = {figure.what: figure for figure in figures_of_both(*sides)}
            assert {figure.verdict for figure in told.values()} <= {"", "other"}
            kept = told["saved for the backward"]
            assert "not seen" in (kept.left, kept.right)
            assert kept.change == "not compared: a graph came from torch's cache"
            assert told["kernels"].change == kept.change
            assert told["  C++"].change == kept.change


def test_a_program_that_did_not_end_has_no_fewer_breaks(tmp_path: Path) -> None:
    for name, outcome in (("ok", model.Outcome("finished")), ("raised", model.Outcome("raised"))):
        with SessionWriter(tmp_path / f"{name}.fxs") as writer:
            writer.set_meta("outcome", outcome.to_json())
            if name == "ok":
                writer.add(model.GraphBreak(0, 0, "GB1", "r", "e", (), "/m.py", 3, "print()"))
    with SessionReader(tmp_path / "ok.fxs") as ok, SessionReader(tmp_path / "raised.fxs") as raised:
        told = {figure.what: figure.change for figure in figures_of_both(ok, raised)}
    assert told["graph breaks"] == "not compared: one of the programs did not run to its end"


def test_the_active_variant_is_the_one_that_pauses_else_the_one_in_use(tmp_path: Path) -> None:
    with with_variants(tmp_path / "s.fxs") as reader:
        assert describe_active_variant(reader) == "original"
        assert describe_active_variant(reader, "0/0~1") == "variant 1: inductor.max_fusion_size = 8"
        with SessionWriter(tmp_path / "s.fxs") as writer:
            original, _, two = reader.rows(model.Compilation)
            writer.update(replace(original, in_use=False))
            writer.update(replace(two, in_use=True))
        assert (
            describe_active_variant(reader) == "variant 2"
        )  # what was changed is too long for the header
    write_training_step(tmp_path / "alone.fxs")
    with SessionReader(tmp_path / "alone.fxs") as reader:
        assert describe_active_variant(reader) == ""
