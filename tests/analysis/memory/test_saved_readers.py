"""These tests check which kernels of a backward read what the forward saved, against the text of
torch's own wrapper.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.memory.replay import NAMED, TakenStorage
from fx_explorer.instruments.memory.saved_readers import (
    describe_saved_node,
    kernels_reading_saved,
    parameters_of,
    saved_read_by,
)
from fx_explorer.readers.torch_trace.read_log import read_log
from fx_explorer.session import SessionReader
from tests.analysis.memory.test_replay import X, replayed
from tests.conftest import ROOT
from tests.exhaustive import with_others

DATA = ROOT / "tests" / "data"

LOGS = ("h200_gpt_block_train", "h200_llama_train")

Reads = dict[str, list[tuple[str, int]]]
"""Saved tensor → (kernel, line of the output code) of each that reads it."""


def reads_in_text(code: str, names: list[str]) -> Reads:
    """Return the calls in which a name stands as a word, but for those that torch wrote to check
    sizes, to take the arguments apart and to free them. Where memory gets a new name, the next call
    with that name works in place: it reads what was there.
    """
    reads: Reads = {name: [] for name in names}
    reused: dict[str, str] = {}
    begins = code.index("def call(")
    first = code[:begins].count("\n")
    # Below it is what torch writes to run the module alone.
    body = code[begins : code.index("def get_args(")]
    for number, line in enumerate(body.split("\n"), first + 1):
        reuse = re.match(r"\s*(?P<new>\w+) = .*; del (?P<old>\w+)  # reuse", line)
        if reuse:
            reused[reuse["new"]] = reuse["old"]
            continue
        call = re.match(r"\s*(?:\w+ = )?(?P<name>[\w.]+?)(?:\.run)?\(", line)
        if call is None or call["name"] in ("assert_size_stride", "args.clear"):
            continue
        words = set(re.findall(r"\w+", line))
        words |= {reused.pop(word) for word in words.intersection(reused)}
        for name in words.intersection(reads):
            reads[name].append((call["name"], number))
    return reads


@pytest.mark.parametrize("name", with_others(LOGS[:1], LOGS[1:]))
def test_the_kernels_that_read_a_saved_tensor_are_those_of_the_wrapper(
    name: str, tmp_path: Path
) -> None:
    log = DATA / "torch_trace" / f"{name}.log.gz"
    read_log(log, tmp_path / "log.fxs")
    reader = SessionReader(tmp_path / "log.fxs")
    kernels = kernels_reading_saved(reader)
    saved = reader.rows(model.SavedTensor)
    (code,) = reader.rows(model.Artifact, kind="output_code", direction="backward")
    expected = reads_in_text(reader.text(code.text), [row.name for row in saved])
    found = {
        row.name: [(kernel.name, kernel.code_line) for kernel in kernels[row.id]] for row in saved
    }
    assert found == expected
    assert any(len(calls) > 1 for calls in found.values())


def test_a_node_and_a_kernel_name_each_other(tmp_path: Path) -> None:
    path = tmp_path / "whole.fxs"
    path.write_bytes(gzip.decompress((DATA / "screens" / "whole.fxs.gz").read_bytes()))
    reader = SessionReader(path)
    kernels = kernels_reading_saved(reader)
    saved = next(row for row in reader.rows(model.SavedTensor) if kernels.get(row.id))
    reading = kernels[saved.id][0]
    assert saved in saved_read_by(reader, reading.kernel)
    for node in (saved.producer, saved.consumer):
        assert reading.name in describe_saved_node(reader, reader.get(model.Node, node))
    other = reader.rows(model.Node, op="output")[0]
    assert not describe_saved_node(reader, other)


def test_views_and_keywords_are_taken_and_results_are_not() -> None:
    found = replayed(
        """
        x, = args
        buf0 = empty_strided_cpu((16, ), (1, ), torch.float32)
        kernel_mm(reinterpret_tensor(x, (4, 4), (4, 1), 0), other=x, out=buf0)
        """,
        X,
    )
    (step,) = found.kernels
    assert step.takes == (TakenStorage(0, 0), TakenStorage(0, NAMED))


def test_what_was_in_reused_memory_is_taken_once_more_at_most() -> None:
    found = replayed(
        """
        x, = args
        buf0 = x; del x  # reuse
        kernel_a(buf0)
        kernel_b(buf0)
        """,
        X,
    )
    first, second = found.kernels
    assert first.takes == (TakenStorage(0, 0, is_reused=True),)
    assert second.takes == ()


def test_the_parameters_of_kernels_say_what_is_read() -> None:
    cpp = (
        'extern "C"  void  kernel(float* in_out_ptr0,\n  const bool* in_ptr0,\n  float* out_ptr0)\n'
    )
    assert parameters_of(cpp) == ("in_out_ptr0", "in_ptr0", "out_ptr0")
    triton = "@triton.jit\ndef triton_poi_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):\n"
    assert parameters_of(triton) == ("in_ptr0", "out_ptr0", "xnumel", "XBLOCK")
    assert parameters_of("no kernel") == ()


@pytest.mark.parametrize("name", with_others(LOGS[:1], LOGS[1:]))
def test_a_kernel_that_works_in_place_follows_the_wrappers_reuse(name: str, tmp_path: Path) -> None:
    read_log(DATA / "torch_trace" / f"{name}.log.gz", tmp_path / "log.fxs")
    reader = SessionReader(tmp_path / "log.fxs")
    (code,) = reader.rows(model.Artifact, kind="output_code", direction="backward")
    lines = reader.text(code.text).split("\n")
    readers = kernels_reading_saved(reader)
    for saved in reader.rows(model.SavedTensor):
        for reading in readers[saved.id]:
            assert reading.code_at.endswith(f":{reading.code_line}")
            before = lines[: reading.code_line]
            after = "\n".join(lines[reading.code_line :]).partition("def get_args(")[0]
            statements = [line.partition("#")[0] for line in after.split("\n")]
            if reading.works_in_place:
                assert any(f"= {saved.name}; del {saved.name}  # reuse" in line for line in before)
            if reading.is_last and not reading.works_in_place:
                used = [line for line in statements if re.search(rf"\b{saved.name}\b", line)]
                assert all(line.strip() == f"del {saved.name}" for line in used)
