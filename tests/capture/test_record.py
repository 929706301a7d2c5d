import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fx_explorer
from fx_explorer.model import Compilation, Graph, TraceStep
from fx_explorer.session import SessionReader


def test_record_captures_what_is_compiled_in_the_block(tmp_path: Path) -> None:
    torch._dynamo.reset()
    with fx_explorer.record(tmp_path / "r.fxs", build=False) as session:
        compiled = torch.compile(lambda x: x.sin() + 1)
        assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin() + 1)
    torch._dynamo.reset()
    assert [path.name for path in tmp_path.iterdir()] == ["r.fxs"], (
        "the session is one file when the block ends"
    )
    with SessionReader(session) as reader:
        assert reader.count(Compilation) == 1
        assert reader.rows(Graph, stage="post_grad")
        assert reader.meta("outcome")["kind"] == "finished"


def test_an_exception_passes_through_and_leaves_a_whole_session(tmp_path: Path) -> None:
    torch._dynamo.reset()
    session = tmp_path / "r.fxs"

    def program() -> None:
        with fx_explorer.record(session, build=False):
            torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
            raise KeyError("mine")

    with pytest.raises(KeyError):
        program()
    with SessionReader(session) as reader:
        assert reader.meta("outcome")["kind"] == "raised"
        assert reader.count(Compilation) == 1


def test_each_instruction_that_dynamo_traces_is_recorded_where_it_is_asked_for(
    tmp_path: Path,
) -> None:
    def instructions(**options: bool) -> list[str]:
        torch._dynamo.reset()
        path = tmp_path / f"{len(options)}.fxs"
        with fx_explorer.record(path, build=False, **options) as session:
            torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(3))
        with SessionReader(session) as reader:
            return [step.instruction for step in reader.rows(TraceStep) if step.instruction]

    assert "RETURN_VALUE" in instructions(record_trace=True)
    assert instructions() == []


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    there = tmp_path / "r.fxs"
    there.write_text("mine")
    with pytest.raises(FileExistsError), fx_explorer.record(there):
        pass
    assert there.read_text() == "mine"


def test_the_package_resolves_record_without_importing_torch_before(tmp_path: Path) -> None:
    program = "import sys, fx_explorer; assert 'torch' not in sys.modules; fx_explorer.record; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)


def test_recording_needs_none_of_our_dependencies(tmp_path: Path) -> None:
    program = f"""
import sys
for name in ("rich", "textual", "jinja2", "pygments", "libcst", "IPython"):
    sys.modules[name] = None
import torch, fx_explorer
with fx_explorer.record({str(tmp_path / "r.fxs")!r}, build=False) as session:
    torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
print(session.name)
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ended.stdout, ended.returncode) == ("r.fxs\n", 0), ended.stderr
