"""A large model's ``compilation_metrics`` has the stacks of all kernels: megabytes that an artifact
has, too. The figures beside them are read.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer.instruments.compile_time.torch_phases import torch_phases
from fx_explorer.readers.torch_trace import read_log
from fx_explorer.readers.torch_trace.records import MOST_OF_JSON, Damage, records
from fx_explorer.session import SessionReader

STACK = '  File "/home/me/model.py", line 3, in f\n    x = y["a"], "b"]\n'

ODD = ('"], "', '\\"]', "\\", 'a\\\\"], "b', "]", '["', "ends with a backslash \\")


def record(metrics: dict[str, object], kind: str = "compilation_metrics") -> bytes:
    content = {"frame_id": 0, "frame_compile_id": 0, "attempt": 0}
    line = json.dumps({kind: metrics, **content})
    return f"V1130 18:26:14.714000 17096 torch/_dynamo/utils.py:1] {line}\n".encode()


def metrics_of(provenance: list[str]) -> dict[str, object]:
    return {
        "compile_id": "0/0",
        "inductor_provenance": provenance,
        "stack_trace": ["Line: 12", "Line: 13"],
        "inductor_cumulative_compile_time_us": 2_000_000,
        "dynamo_cumulative_compile_time_us": 5_000_000,
    }


@pytest.mark.parametrize(
    "provenance",
    [
        [],
        ["]", "], "],
        ["x" * 100_000],
        [json.dumps({"kernel:1": [STACK] * 1_000}), *ODD],
        [*ODD, *ODD, "y" * 100_000, "\\"],
    ],
)
def test_all_fields_but_the_stacks_of_kernels_are_read(provenance: list[str]) -> None:
    metrics = metrics_of(provenance)
    metrics["graph_node_shapes"] = "z" * 100_000
    damage = Damage()
    (read,) = records([record(metrics)], damage)
    assert read is not None
    assert read.content == {**metrics, "inductor_provenance": []}
    assert not damage.skipped


def test_a_record_is_read_however_many_kernels_it_has(tmp_path: Path) -> None:
    provenance = [json.dumps({"kernel:1": [STACK] * (MOST_OF_JSON // len(STACK))})]
    log = tmp_path / "large.log"
    log.write_bytes(record(metrics_of(provenance)))
    read_log(log, tmp_path / "large.fxs")
    with SessionReader(tmp_path / "large.fxs") as reader:
        assert not reader.meta("skipped_records")
        assert {phase.seconds for phase in torch_phases(reader)} >= {2.0}


def test_figures_are_read_beside_fields_that_are_longer_than_a_column(tmp_path: Path) -> None:
    metrics = metrics_of(["x"]) | {"graph_node_shapes": '"' * 200_000, "inductor_config": "{}"}
    log = tmp_path / "shapes.log"
    log.write_bytes(record(metrics))
    read_log(log, tmp_path / "shapes.fxs")
    with SessionReader(tmp_path / "shapes.fxs") as reader:
        assert {phase.seconds for phase in torch_phases(reader)} >= {2.0}
