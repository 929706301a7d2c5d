"""These tests check that compilations in the program's processes are counted; where that is
impossible, it is reported. Second source: torch's counters.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from fx_explorer import cli, model
from fx_explorer.session import SessionReader
from tests.bad_input.child_scripts import FOLDER, HONEST, NOT_RECORDED, check, is_right
from tests.exhaustive import IS_EXHAUSTIVE, in_exhaustive_runs, with_others
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
    if SPAWNS:
        spawned = multiprocessing.get_context("spawn").Process(target=compile_and_tell)
        spawned.start()
        spawned.join()
    subprocess.run([sys.executable, __file__, "alone"], check=True)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
"""


async def test_what_each_child_compiles_is_counted_as_torch_counts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("SPAWNS", str(IS_EXHAUSTIVE)))
    ended = await capture(script, tmp_path / "s.fxs", as_script=True)
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.failures == []
    assert ended.compilations == 1, "what children compile is not the program's own"
    told = [
        json.loads(line.removeprefix("TOLD")) for line in ended.printed() if line.startswith("TOLD")
    ]
    assert len(told) == 3 + IS_EXHAUSTIVE
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


SAYS = {
    "orphan_of_a_background_shell": "it was started with -I",
    "another_sitecustomize": "another sitecustomize replaces ours",
    "shell_that_outlives": "it was still running when the program ended, and runs on",
    "not_waited_for": "it was still running when the program ended, and was ended with the program",
}
"""Scripts of tests/data/child_processes → what a check must say of their child."""

HONEST_SAMPLE = ("short_pythons", "service_that_stays")

IN_A_FORK = {"short_pythons", "service_that_stays", "another_sitecustomize"}
"""Those of which nothing is claimed that a fork of the program itself would do otherwise."""

SAMPLE = ("another_sitecustomize", "not_waited_for", *HONEST_SAMPLE)

SCRIPTS = with_others(
    SAMPLE, sorted({script.stem for script in (*NOT_RECORDED, *HONEST)} - {*SAMPLE})
)
"""Of children that are not recorded two, one that runs on, and of honest scripts two. An exhaustive
run checks fifty, for each reason one at least.
"""


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_check_fails_for_a_python_that_imported_torch_unrecorded_or_runs_on_and_for_no_other(
    name: str, warm_python: str
) -> None:
    script = next(script for script in (*NOT_RECORDED, *HONEST) if script.stem == name)
    checked = check(script, warm_python if name in IN_A_FORK else sys.executable)
    assert is_right(script, checked), checked.stdout + checked.stderr
    assert SAYS.get(name, "") in checked.stdout


GIVEN = FOLDER / "given"

ALL_GIVEN = """
import os, pathlib, runpy, sys

before = dict(os.environ)
for folder in sys.argv[1:]:
    scripts = [file for file in pathlib.Path(folder).glob("*.py") if file.name != "child.py"]
    (script,) = scripts or [pathlib.Path(folder, "child.py")]
    runpy.run_path(str(script), run_name="__main__")
    os.environ.clear()
    os.environ.update(before)
"""
"""Source of a program that runs one script of each folder, so that torch is imported once."""

UNSEEN = {
    "shell_I": "it was started with -I",
    **({"env_launcher_I": "it was started with -I", "py_wrapper": ""} if IS_EXHAUSTIVE else {}),
    "envset_subprocess": "",
    "popen_not_waited": "it was still running when the program ended",
}
"""Given scripts that start a process → why it is not known what that one compiled. An exhaustive
run has all.
"""


@in_exhaustive_runs
@pytest.mark.skipif(sys.platform != "linux", reason="processes are seen on Linux only")
async def test_no_process_of_the_given_scripts_passes_for_one_without_graph_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a child.py of its own, and the last one runs child.py itself."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    folders = []
    for name in ("child", *UNSEEN):  # the one that outlives the program is the last
        folder = tmp_path / name
        folder.mkdir()
        for file in {name, "child"}:
            shutil.copy(GIVEN / f"{file}.txt", folder / f"{file}.py")
        folders.append(str(folder))
    script = tmp_path / "all.py"
    script.write_text(ALL_GIVEN)
    ended = await capture(script, tmp_path / "s.fxs", as_script=True, arguments=tuple(folders))
    assert ended.outcome.kind == "finished", ended.outcome.message
    assert ended.printed().count("CHILD BROKE") == len(UNSEEN)
    with SessionReader(tmp_path / "s.fxs") as reader:
        processes = reader.rows(model.ChildProcess)
        own = [hit.file for hit in reader.rows(model.GraphBreak)]
    unseen = {name: [row for row in processes if f"/{name}/" in row.command] for name in UNSEEN}
    for name, rows in unseen.items():
        assert len(rows) == 1, f"{name}: {rows}"
        assert rows[0].unseen, f"{name}: {rows}"
        assert UNSEEN[name] in rows[0].unseen
    assert len(processes) == len(UNSEEN)
    assert own == [str(tmp_path / "child" / "child.py")]
    session = str(tmp_path / "s.fxs")
    assert cli.main(["check", session, "--max-graph-breaks", "100"]) == 1


PATH_AS_IT_WOULD_BE = """
import os, subprocess, sys
tells = "import os, sys; print(os.environ['MINE'], any('in_children' in entry for entry in sys.path))"
subprocess.run([sys.executable, "-c", tells], env={**os.environ, "MINE": "kept"})
"""


@pytest.mark.usefixtures("warm_workers")
async def test_a_python_that_is_recorded_has_the_path_that_it_would_have(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PATH_AS_IT_WOULD_BE)
    ended = await capture(script, tmp_path / "s.fxs", as_script=True)
    assert ended.printed() == ["kept False"]


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
