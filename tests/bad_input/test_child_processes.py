"""What processes of the program compile is counted; where that cannot be known, it is said. Second source: torch's counters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.session import SessionReader
from tests.worker.capturing import capture

PROGRAM = """
import json, multiprocessing, os, subprocess, sys

def f(x):
    y = x.sin()
    print("cut")
    return y.cos()

def compile_and_tell():
    import torch
    from torch._dynamo.utils import counters
    counters.clear()
    compiled = torch.compile(f, backend="eager", dynamic=False)
    compiled(torch.ones(3)), compiled(torch.ones(4))
    told = {"pid": os.getpid(), "graphs": counters["stats"]["unique_graphs"], "breaks": sum(counters["graph_break"].values())}
    os.write(1, f"\\nTOLD{json.dumps(told)}\\n".encode())  # a whole line at once: another process writes beside it

if __name__ == "__main__":
    if sys.argv[1:] == ["alone"]:
        compile_and_tell()
        os._exit(0)
    early = os.fork()  # before torch is imported
    if early == 0:
        compile_and_tell()
        os._exit(0)
    os.waitpid(early, 0)
    import torch
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
    late = os.fork()
    if late == 0:
        compile_and_tell()
        os._exit(0)
    os.waitpid(late, 0)
    spawned = multiprocessing.get_context("spawn").Process(target=compile_and_tell)
    spawned.start()
    subprocess.run([sys.executable, __file__, "alone"], check=True)
    spawned.join()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""


async def test_what_each_child_compiles_is_counted_as_torch_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    ended = await capture(script, tmp_path / "s.fxs", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.failures == []
    assert ended.compilations == 1, "what children compile is not the program's own"
    told = [
        json.loads(line.removeprefix("TOLD")) for line in ended.printed() if line.startswith("TOLD")
    ]
    assert len(told) == 4
    with SessionReader(tmp_path / "s.fxs") as reader:
        seen = {row.pid: (row.graphs, row.graph_breaks) for row in reader.rows(model.ChildProcess)}
        places = {
            (row.file, row.line) for row in reader.rows(model.ChildFinding) if row.kind == "break"
        }
    assert seen == {one["pid"]: (one["graphs"], one["breaks"]) for one in told}
    assert places == {(str(script), PROGRAM.splitlines().index('    print("cut")') + 1)}
    breaks = sum(one["breaks"] for one in told)
    assert cli.main(["check", str(tmp_path / "s.fxs"), "--max-graph-breaks", str(breaks)]) == 0
    assert cli.main(["check", str(tmp_path / "s.fxs"), "--max-graph-breaks", str(breaks - 1)]) == 1


UNSEEN = """
import os, subprocess, sys
subprocess.run([sys.executable, "-c", "pass"], env={})
subprocess.run([sys.executable, "-I", "-c", "pass"])
subprocess.run(["sh", "-c", f"exec {sys.executable} -c pass"], env={"PYTHONPATH": ""})
os.posix_spawn(sys.executable, [sys.executable, "-c", "pass"], {})
subprocess.run(["echo", "no python"], env={})
tells = "import os, sys; print(os.environ['MINE'], any('in_children' in entry for entry in sys.path))"
subprocess.run([sys.executable, "-c", tells], env={**os.environ, "MINE": "kept"})
"""


@pytest.mark.usefixtures("warm_workers")
async def test_a_python_that_cannot_be_seen_is_noted_and_no_other_program_is(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNSEEN)
    ended = await capture(script, tmp_path / "s.fxs", as_script=True)
    assert ended.printed() == ["no python", "kept False"], (
        "a process that is seen has the path it would have"
    )
    with SessionReader(tmp_path / "s.fxs") as reader:
        unseen = [row.unseen for row in reader.rows(model.ChildProcess)]
    assert len(unseen) == 4
    assert sum("-I" in why for why in unseen) == 1


@pytest.mark.usefixtures("warm_workers")
async def test_a_sitecustomize_of_the_users_still_runs_in_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('customized')")
    script = tmp_path / "script.py"
    script.write_text(
        "import os, subprocess, sys\n"
        f"os.environ['PYTHONPATH'] = os.pathsep.join([os.environ['PYTHONPATH'], {str(tmp_path / 'site')!r}])\n"
        "subprocess.run([sys.executable, '-c', 'import sitecustomize; print(sitecustomize.__file__)'])\n"
    )
    ended = await capture(script, as_script=True)
    assert ended.printed() == ["customized", str(tmp_path / "site" / "sitecustomize.py")]
