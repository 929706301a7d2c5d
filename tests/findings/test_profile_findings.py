"""These tests check what profiles show to be slow, with profiles that were recorded on a GPU, and the
near misses beside them.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader
from tests.profiles import profiled_session, recorded_session

KINDS = ("slow kernel", "waiting GPU", "idle GPU")


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the recorded sessions, each with its profile."""
    folder = tmp_path_factory.mktemp("profiled")
    names = ("scatter", "tiny", "large", "transposed", "gpt2", "broken")
    return {name: profiled_session(name, folder) for name in names}


def of_profile(session: Path) -> list[Finding]:
    with SessionReader(session) as reader:
        return [finding for finding in findings(reader) if finding.kind in KINDS]


def changed(session: Path, folder: Path, statement: str) -> Path:
    """Return a copy of a session with its rows changed."""
    copy = folder / session.name
    shutil.copy(session, copy)
    connection = sqlite3.connect(copy)
    connection.execute(statement)
    connection.commit()
    connection.close()
    return copy


def test_a_kernel_far_below_bandwidth_and_arithmetic(profiled: dict[str, Path]) -> None:
    (finding,) = of_profile(profiled["scatter"])
    assert finding.kind == "slow kernel"
    assert finding.text.startswith(
        "triton_poi_fused__to_copy_clamp_mul_scatter_add_zeros_1 (scatter.py:8) takes >99 % of "
        "the GPU's time and moves "
    )
    assert "<1 % of the GPU's memory bandwidth" in finding.text
    assert finding.place is not None
    assert finding.place.line + 1 == 8
    assert "atomic operations" in finding.detail
    assert "10 runs of" in finding.evidence[0]


def test_a_gpu_that_waits_for_launches(profiled: dict[str, Path]) -> None:
    (finding,) = of_profile(profiled["tiny"])
    assert finding.kind == "waiting GPU"
    assert "of the time for the program to call compiled code" in finding.text
    first, *others = finding.remedies
    assert 'mode="reduce-overhead"' in first.text
    assert others
    assert "generated code between its kernels" in finding.evidence[1]


@pytest.mark.parametrize("name", ["large", "transposed", "gpt2", "broken"])
def test_near_misses_have_no_finding(name: str, profiled: dict[str, Path]) -> None:
    """A kernel at a third of the bandwidth that computes much; one that reads a transpose; a GPU
    that is idle while Python, the optimizer or the compiler runs, or that has one long stall.
    """
    assert not of_profile(profiled[name])


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE kernel SET estimated_bytes=estimated_bytes*200",
        "UPDATE kernel SET estimated_bytes=-1",
        "UPDATE profile_time SET seconds=seconds/200",
        "UPDATE profile SET span_s=span_s*20",
        "UPDATE profile SET work_s=work_s*6",
        "UPDATE kernel SET name=replace(name, 'triton_poi_', 'triton_tem_')",
        "UPDATE node SET target=replace(target, 'scatter_add', 'embedding')",
    ],
)
def test_a_kernel_that_is_not_judged(
    statement: str, profiled: dict[str, Path], tmp_path: Path
) -> None:
    """It moves what it can, nobody knows how much, each run is short, it is a small part, it is a
    template whose arithmetic torch does not count, or it reads rows again and again.
    """
    kinds = [row.kind for row in of_profile(changed(profiled["scatter"], tmp_path, statement))]
    assert "slow kernel" not in kinds


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE profile_gap SET doing=replace(doing, 'generated code', 'reading'), after_kernel=0",
        "UPDATE profile SET graph_calls=2",
        "UPDATE profile SET compiled_s=work_s*0.4",
    ],
)
def test_a_gpu_that_waits_for_something_else(
    statement: str, profiled: dict[str, Path], tmp_path: Path
) -> None:
    assert not of_profile(changed(profiled["tiny"], tmp_path, statement))


@pytest.mark.parametrize(
    ("doing", "remedy"),
    [
        ("enumerate(DataLoader)#next", "num_workers"),
        ("optimizer AdamW.step", "fused=True"),
        ("Python, or work that the profile does not record", "Python profiler"),
    ],
)
def test_a_gpu_that_is_idle_while_the_program_does_something_else(
    doing: str, remedy: str, profiled: dict[str, Path], tmp_path: Path
) -> None:
    statement = f"UPDATE profile_gap SET doing=json_array('{doing}'), doing_s=json_array(seconds)"
    (finding,) = of_profile(changed(profiled["tiny"], tmp_path, statement))
    assert (finding.kind, finding.severity) == ("idle GPU", "notice")
    assert doing in finding.evidence[0]
    assert remedy in finding.remedies[0].text


def test_one_long_stall_is_no_idle_gpu(profiled: dict[str, Path], tmp_path: Path) -> None:
    statement = (
        "UPDATE profile_gap SET doing=json_array('loading'), doing_s=json_array(seconds) "
        "WHERE seconds=(SELECT max(seconds) FROM profile_gap)"
    )
    kinds = [row.kind for row in of_profile(changed(profiled["tiny"], tmp_path, statement))]
    assert kinds == ["waiting GPU"]


def test_where_cuda_graphs_were_asked_for_they_are_not_offered(
    profiled: dict[str, Path], tmp_path: Path
) -> None:
    statement = (
        "INSERT INTO option_in_force (name, value, set_by, function, file, line, variable) "
        "VALUES ('compile.mode', '\"reduce-overhead\"', 'program', '', '', 0, '')"
    )
    (finding,) = of_profile(changed(profiled["tiny"], tmp_path, statement))
    assert "reduce-overhead" not in "".join(remedy.text for remedy in finding.remedies)


def test_without_a_profile_neither_is_looked_for(profiled: dict[str, Path], tmp_path: Path) -> None:
    with SessionReader(recorded_session("scatter", tmp_path)) as reader:
        without = search(reader)
    with SessionReader(profiled["scatter"]) as reader:
        beside = search(reader)
    for looked_for in ("slow kernels", "a GPU that waits"):
        assert looked_for in without.not_looked_for
        assert looked_for in beside.looked_for
