"""These tests read a directory that torch 2.13 wrote for TORCH_COMPILE_DEBUG=1, of relu(x @ w) and
its backward.
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.analysis.whole_session import damage
from fx_explorer.overview.overview import overview
from fx_explorer.readers.debug_directory import is_debug_directory, read_directory
from fx_explorer.session import SessionReader

PACKED = Path(__file__).parents[2] / "data" / "debug_directory" / "forward_and_backward.tar.gz"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("debug")
    with tarfile.open(PACKED) as archive:
        archive.extractall(folder, filter="data")
    return folder / "torch_compile_debug"


@pytest.fixture(scope="module")
def reader(directory: Path) -> Iterator[SessionReader]:
    session = directory.parent / "s.fxs"
    read_directory(directory, session)
    with SessionReader(session) as opened:
        yield opened


def text_of(directory: Path, direction: str, name: str) -> str:
    (file,) = directory.rglob(f"model__0_{direction}_*/{name}")
    return file.read_text()


def test_every_graph_file_is_a_graph(directory: Path, reader: SessionReader) -> None:
    assert damage(reader) == []
    for direction in ("forward", "backward"):
        for file, stage in (
            ("fx_graph_readable.py", direction),
            ("fx_graph_transformed.py", "post_grad"),
        ):
            (graph,) = reader.rows(model.Graph, stage=stage, direction=direction)
            printed = re.findall(
                r"^        (\w+): .*? = ", text_of(directory, direction, file), re.M
            )
            assert (
                [node.name for node in reader.nodes(graph) if node.op.startswith("call_")]
                == printed
                != []
            )


def test_forward_and_backward_of_a_program_are_one_compilation(reader: SessionReader) -> None:
    assert [(row.name, row.status, row.function) for row in reader.rows(model.Compilation)] == [
        ("model 0", "ok", "scaled")
    ]


def test_kernels_are_split_out_and_say_what_they_compute(
    directory: Path, reader: SessionReader
) -> None:
    code = text_of(directory, "forward", "output_code.py") + text_of(
        directory, "backward", "output_code.py"
    )
    wanted = re.findall(r"^(\w+) = async_compile\.", code, re.M)
    kernels = [row for row in reader.rows(model.Kernel) if row.language == "cpp"]
    assert sorted(row.name for row in kernels) == sorted(wanted)
    table = json.loads(
        text_of(directory, "forward", "inductor_provenance_tracking_node_mappings.json")
    )["cppCodeToPost"]
    (forward,) = [row for row in kernels if row.direction == "forward"]
    computed = {
        reader.by_ids(model.Node, [link.node])[0].name
        for link in reader.rows(model.LineNode, artifact=forward.artifact)
    }
    assert (
        computed
        == {
            name
            for handle, names in table.items()
            if handle.startswith(forward.name)
            for name in names
        }
        != set()
    )


def test_inductors_ir_is_shown_before_and_after_fusion(
    directory: Path, reader: SessionReader
) -> None:
    for kind in ("ir_pre_fusion", "ir_post_fusion"):
        rows = reader.rows(model.Artifact, kind=kind)
        assert {reader.text(row.text) for row in rows} == {
            text_of(directory, d, f"{kind}.txt") for d in ("forward", "backward")
        }


@pytest.mark.parametrize(
    "below", [".", "run_*", "run_*/torchinductor", "run_*/torchinductor/model__0_forward_*"]
)
def test_it_is_known_from_any_level(directory: Path, below: str) -> None:
    (named,) = directory.glob(below) if below != "." else (directory,)
    assert is_debug_directory(named)


def test_other_directories_are_none(tmp_path: Path) -> None:
    (tmp_path / "model__0_forward_1.0").mkdir()  # the name alone is not enough
    assert not is_debug_directory(tmp_path)


def test_the_overview_says_what_it_has_and_claims_nothing_of_breaks(reader: SessionReader) -> None:
    facts = overview(reader)
    assert (
        "a TORCH_COMPILE_DEBUG directory: 13 files, all of them read."
        in facts[0].text + facts[1].text
    )
    assert [fact.text for fact in facts if fact.topic == "graphs"] == [
        "Inductor compiled 2 graphs."
    ]
    assert not [fact for fact in facts if fact.topic == "breaks"]


def test_a_log_of_the_same_run_is_named(directory: Path, tmp_path: Path) -> None:
    log = directory / "tlparse" / "dedicated_log_torch_trace_x.log"
    log.parent.mkdir()
    log.touch()
    try:
        read_directory(directory, tmp_path / "s.fxs")
    finally:
        log.unlink()
        log.parent.rmdir()
    with SessionReader(tmp_path / "s.fxs") as opened:
        assert any(f"fx-explorer {log}" in fact.detail for fact in overview(opened))


def test_report_takes_it_and_what_needs_the_program_does_not(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(directory)]) == 0
    assert json.loads(capsys.readouterr().out)["totals"]["skipped_records"] == 0
    assert cli.main(["capture", str(directory), "-o", str(directory / "x.fxs")]) == 2
    assert "was written by torch about a program" in capsys.readouterr().err


def test_a_file_that_is_damaged_is_counted(directory: Path, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    shutil.copytree(directory, copied)
    (table,) = copied.rglob("*.json")
    table.write_text("{")
    read_directory(copied, tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as opened:
        assert opened.meta("skipped_records") == 1
        assert opened.count(model.Kernel) == 4
