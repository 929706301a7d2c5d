"""These tests check builders as processes, with a real Triton: their results equal what was
recorded, and a kernel that crashes does not affect the others.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fx_explorer.client.session_files import writable_session
from fx_explorer.errors import WorkerError
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.assembly_text import without_encoding
from fx_explorer.instruments.kernels.builder_pool import Builder, BuilderPool, how_it_ended, rows_of
from fx_explorer.instruments.kernels.live_registers import control_words
from fx_explorer.model import BuildAnswer, BuildRequest, KernelBuild
from fx_explorer.session import SessionReader, SessionWriter
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import Sample, sample
from tests.worker.test_client import wait_until

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)

ERF = "tmp5 = libdevice.erf(tmp4)"


@dataclass
class Outcomes:
    folder: Path
    rows: dict[str, KernelBuild]
    again: KernelBuild
    passes: str
    cancelled: bool
    every: list[KernelBuild]

    def text(self, name: str, level: str) -> str:
        with SessionReader(self.folder / f"{name}.fxs") as reader:
            from fx_explorer.model import Artifact

            return reader.text(reader.get(Artifact, self.rows[name].levels[level]).text)


def _sources(one: Sample, begun: Path) -> dict[str, str]:
    asm = 'tl.inline_asm_elementwise("nonsense.f32 $0, $1;", "=f,f", [tmp4], dtype=tl.float32, is_pure=True, pack=1)'
    return {
        "good": one.source,
        "refused": one.source.replace(ERF, f"tmp5 = {asm}"),
        "wrong": one.source.replace(ERF, "tmp5 = tl.nonsense(tmp4)"),
        "no_python": "def f(:\n",
        "crash": "import os\nos.abort()\n",
        "endless": f"open({str(begun)!r}, 'w').close()\nwhile True:\n    pass\n",
    }


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """Return the results of all builds by one builder: it is started again only after the crash and
    after a cancellation.
    """
    folder = tmp_path_factory.mktemp("builds")
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    try:
        return asyncio.run(_outcomes(folder))
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before


async def _outcomes(folder: Path) -> Outcomes:
    one = sample("h100_softmax")
    begun = folder / "begun"
    sources = _sources(one, begun)
    kernels = {
        name: write_kernel(folder / f"{name}.fxs", one, source=text, built=False)
        for name, text in sources.items()
    }
    ran = folder / "ran"
    strangers = {
        "stranger": one.source,
        "hostile": f"open({str(ran)!r}, 'w').close()\n" + one.source,
    }
    strangers["in_the_body"] = one.source.replace(ERF, f"tmp5 = tl.core.os.system('touch {ran}')")
    for name, text in strangers.items():
        kernels[name] = write_kernel(
            folder / f"{name}.fxs", one, source=text, built=False, own=False
        )
    kernels["renamed"] = write_kernel(folder / "renamed.fxs", one, name="add_kernel_0", built=False)
    matmul = kernels["matmul"] = write_kernel(
        folder / "matmul.fxs", sample("h100_matmul"), built=False
    )
    rows = {}
    async with BuilderPool(find_gpu("h100"), builders=1) as builds:
        for name in (
            "good",
            "refused",
            "wrong",
            "no_python",
            "renamed",
            *strangers,
            "crash",
            "matmul",
        ):
            rows[name] = await builds.build(kernels[name].path, kernels[name].kernel)
        endless = builds.ask("build", kernels["endless"].path, kernels["endless"].kernel)
        assert await asyncio.to_thread(wait_until, begun.exists)
        endless.cancel()
        cancelled = (await asyncio.gather(endless, return_exceptions=True))[0]
        again = await builds.build(kernels["good"].path, kernels["good"].kernel)
        passes = await builds.passes(kernels["good"].path, kernels["good"].kernel)
        every = await builds.build_all(matmul.path, matmul.kernel)
    return Outcomes(
        folder, rows, again, passes, isinstance(cancelled, asyncio.CancelledError), every
    )


@needs_triton
def test_resources_are_those_that_cuobjdump_and_ptxas_reported(outcomes: Outcomes) -> None:
    for name, of in (("good", "h100_softmax"), ("matmul", "h100_matmul")):
        row, recorded = outcomes.rows[name], sample(of).fields
        assert row.state == "built", row.error
        assert row.registers == int(re.findall(r"Used (\d+) registers", recorded["ptxas"])[0])
        assert row.registers == int(re.findall(r"REG:(\d+)", recorded["cuobjdump"])[-1])
        assert row.spill_bytes == int(re.findall(r"(\d+) bytes spill stores", recorded["ptxas"])[0])
        assert (row.shared_bytes, row.threads) == (recorded["shared_bytes"], recorded["threads"])


@needs_triton
def test_the_code_is_the_recorded_code(outcomes: Outcomes) -> None:
    """Names of files differ with the cache directory."""
    instructions = [
        line
        for line in sample("h100_softmax").levels["sass"].split("\n")
        if re.match(r"\s+/\*[0-9a-f]{4}\*/", line)
    ]
    text = outcomes.text("good", "sass")
    assert [
        line for line in without_encoding("sass", text).split("\n") if line in set(instructions)
    ] == instructions
    assert len(control_words(text)) == len(instructions), "each instruction has its encoding"


@needs_triton
def test_what_was_built_is_not_built_again(outcomes: Outcomes) -> None:
    assert outcomes.again == outcomes.rows["good"]


@needs_triton
def test_a_kernel_that_ptxas_refuses_keeps_its_message(outcomes: Outcomes) -> None:
    row = outcomes.rows["refused"]
    assert row.state == "failed"
    assert "nonsense" in row.error
    assert "ptxas" in row.error
    assert "Repro command" not in row.error


@needs_triton
def test_a_strangers_kernel_is_compiled_and_nothing_of_it_is_run(outcomes: Outcomes) -> None:
    good, stranger = outcomes.rows["good"], outcomes.rows["stranger"]
    assert (stranger.state, stranger.registers) == ("built", good.registers)
    assert outcomes.text("stranger", "ptx").count("\n") == outcomes.text("good", "ptx").count("\n")
    for name, line, what in (("hostile", 1, "open"), ("in_the_body", 39, "tl.core.os.system")):
        row = outcomes.rows[name]
        assert row.state == "failed"
        assert re.match(
            rf"line {line} of the kernel's source is rejected: .*{re.escape(what)}", row.error
        ), row.error
    assert not (outcomes.folder / "ran").exists()


@needs_triton
def test_a_fault_in_a_kernel_is_shown_with_its_line(outcomes: Outcomes) -> None:
    assert "tl.nonsense(tmp4)" in outcomes.rows["wrong"].error
    assert "has no attribute 'nonsense'" in outcomes.rows["wrong"].error
    assert "SyntaxError: invalid syntax" in outcomes.rows["no_python"].error


@needs_triton
def test_a_kernel_that_the_wrapper_calls_by_another_name_is_built(outcomes: Outcomes) -> None:
    assert outcomes.rows["renamed"].state == "built"


@needs_triton
def test_a_compiler_that_crashes_is_a_row_and_the_next_kernel_is_built(outcomes: Outcomes) -> None:
    assert outcomes.rows["crash"].state == "failed"
    assert outcomes.rows["crash"].error.startswith("the compiler crashed (SIGABRT)")
    assert outcomes.rows["matmul"].state == "built"


@needs_triton
def test_a_compile_that_does_not_end_can_be_cancelled(outcomes: Outcomes) -> None:
    assert outcomes.cancelled
    assert outcomes.again.state == "built"
    assert not [
        row for row in rows_of(outcomes.folder / "endless.fxs", 1, "h100") if row.state == "built"
    ]


@needs_triton
def test_mlir_passes_are_kept(outcomes: Outcomes) -> None:
    assert outcomes.passes.count("IR Dump Before") > 50


@needs_triton
def test_all_configurations_have_resources(outcomes: Outcomes) -> None:
    (row,) = outcomes.every
    assert (row.registers, set(row.levels)) == (94, {"ttir", "ttgir", "llir", "ptx", "sass"})
    assert row.options["BLOCK_M"] == 128


@needs_triton
async def test_several_who_build_the_same_kernel_at_once_show_the_same_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    of = write_kernel(tmp_path / "shared.fxs", sample("h100_softmax"), built=False)

    async def built() -> tuple[KernelBuild, str]:
        async with BuilderPool(find_gpu("h100"), builders=1) as builds:
            return await builds.build(of.path, of.kernel), await builds.passes(of.path, of.kernel)

    (first, passes), *others = await asyncio.gather(built(), built())
    assert first.state == "built"
    assert first.levels.keys() >= {"ttir", "ptx", "sass"}
    assert others == [(first, passes)]
    (kept,) = [
        row for row in rows_of(of.path, of.kernel, first.gpu) if row.position == first.position
    ]
    assert kept.levels == first.levels


async def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path) -> None:
    builds = BuilderPool(find_gpu("h100"), python="/no/such/python")
    with pytest.raises(WorkerError, match="cannot start /no/such/python"):
        await builds.warm_up()
    await builds.close()


def test_a_session_that_cannot_be_written_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"))
    assert writable_session(written.path) == written.path
    monkeypatch.setattr(
        os, "access", lambda path, mode: False
    )  # root may write whatever the mode says
    copy = writable_session(written.path)
    assert copy != written.path
    assert rows_of(copy, written.kernel, "h100") == rows_of(written.path, written.kernel, "h100")


async def test_that_nothing_could_be_built_is_no_table_without_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full by the first configuration: the answer is refused, and no row says
    anything.
    """
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"), built=False)
    with SessionWriter(written.path) as writer:
        writer.add(KernelBuild(0, written.kernel, 0, {"XBLOCK": 1}, "h100"))

    async def refused(builder: Builder, request: BuildRequest) -> BuildAnswer:
        return BuildAnswer(
            request.number,
            "candidates" if request.task == "candidates" else "refused",
            text="no space left",
        )

    monkeypatch.setattr(Builder, "ask", refused)
    async with BuilderPool(find_gpu("h100"), builders=1) as builds:
        with pytest.raises(WorkerError, match="no space left"):
            await builds.build_all(written.path, written.kernel)


def test_how_a_builder_ended_is_said_in_words() -> None:
    assert how_it_ended(-9) == "the compiler was killed (SIGKILL), as happens when memory runs out"
    assert how_it_ended(-6) == "the compiler crashed (SIGABRT)"
    assert how_it_ended(3) == "the builder exited with status 3"


CLIENT = """
import asyncio, sys
from fx_explorer.instruments.kernels.builder_pool import Builder
from fx_explorer.gpus import find_gpu
async def stay():
    await Builder(find_gpu("h100"), sys.executable).start()
    print("warm", flush=True)
    await asyncio.sleep(600)
asyncio.run(stay())
"""


@needs_triton
def test_a_busy_builder_ends_with_its_client_however_that_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "warm\n"
        try:
            children = Path(f"/proc/{client.pid}/task/{client.pid}/children").read_text().split()
            (builder,) = [
                child
                for child in children
                if b"kernel_builder" in Path(f"/proc/{child}/cmdline").read_bytes()
            ]
            os.kill(int(builder), signal.SIGSTOP)  # busy: it reads nothing
        finally:
            client.kill()
    assert wait_until(lambda: not is_running(builder))


def is_running(pid: str) -> bool:
    """Return whether a process is running. A dead process that nobody has waited for does not
    count.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
