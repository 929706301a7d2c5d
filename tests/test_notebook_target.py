"""These tests check notebooks as targets: their code cells run as a script."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.command_line.notebook_target import notebook_of, script_of
from fx_explorer.errors import UsageError
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

CELLS = [
    ("markdown", ["# A model\n", "of two layers"]),
    ("code", ["%matplotlib inline\n", "import torch\n", "!pip install nothing\n", "import beside"]),
    ("code", "%%bash\necho nothing\nexit 1"),
    (
        "code",
        [
            "model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())\n",
            "if True:\n",
            "    %time\n",
            "torch.nn.Linear?\n",
            "print(torch.compile(model)(torch.ones(2, 4)).shape, beside.NAME)",
        ],
    ),
    ("raw", "no code"),
]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def _notebook(path: Path, cells: list[tuple[str, object]]) -> Path:
    listed = [{"cell_type": kind, "metadata": {}, "source": source} for kind, source in cells]
    path.write_text(json.dumps({"cells": listed, "metadata": {}, "nbformat": 4}))
    return path


def test_code_cells_run_as_a_script_beside_the_notebook(
    tmp_path: Path, fx_explorer: list[str], warm_python: str, capture_environment: dict[str, str]
) -> None:
    (tmp_path / "beside.py").write_text('NAME = "found"\n')
    _notebook(tmp_path / "model.ipynb", CELLS)
    run = subprocess.run(
        [*fx_explorer, "report", "model.ipynb", "--format", "json", "--python", warm_python],
        cwd=tmp_path,
        env={**capture_environment, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    assert report["totals"]["graphs"] == 1
    assert "torch.Size([2, 4]) found" in run.stderr


def test_lines_stay_and_what_is_for_ipython_is_a_comment(tmp_path: Path) -> None:
    text = script_of(_notebook(tmp_path / "a.ipynb", CELLS)).read_text()
    assert "# %% cell 2\npass  # %matplotlib inline\nimport torch\n" in text
    assert "# %%bash\n# echo nothing\n# exit 1\n" in text
    assert "    pass  # %time\npass  # torch.nn.Linear?\n" in text
    assert "of two layers" not in text


def test_a_notebook_is_known_by_its_content_and_may_name_an_object(tmp_path: Path) -> None:
    path = _notebook(tmp_path / "a.ipynb", CELLS)
    assert kind_of_file(path).kind == "notebook"
    assert notebook_of(f"{path}:model") == (path, "model")
    assert notebook_of(str(tmp_path / "none.ipynb")) is None


def _run(path: Path) -> dict[str, Any]:
    return runpy.run_path(str(script_of(path)))


def test_what_only_looks_like_a_magic_is_python(tmp_path: Path) -> None:
    code = (
        'text = """\n%d of\n!! why?\n"""\n'
        "rest = (17\n    % 5)\nlonger = 17 \\\n    % 6\n"
        "sizes = [1,  # why?\n    2]\n# is it so?\n%matplotlib inline\nafter = 1"
    )
    variables = _run(_notebook(tmp_path / "a.ipynb", [("code", code)]))
    assert variables["text"] == "\n%d of\n!! why?\n"
    assert (variables["rest"], variables["longer"], variables["sizes"]) == (2, 5, [1, 2])
    assert variables["after"] == 1


def test_code_that_is_timed_runs(tmp_path: Path) -> None:
    cells: list[tuple[str, object]] = [
        ("code", "%%time\na = 1"),
        ("code", ["\n", "%%capture out\n", "b = a + 1\n", "%time c = b + 1\n"]),
        ("code", "seen = []\n%timeit -n 10 -r3 -o seen.append(c)\n%time\n"),
        ("code", "%%writefile model.py\nd = 1"),
    ]
    variables = _run(_notebook(tmp_path / "a.ipynb", cells))
    assert (variables["b"], variables["c"], variables["seen"]) == (2, 3, [3])
    assert "d" not in variables


def test_what_jupyter_gives_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    cells: list[tuple[str, object]] = [
        ("code", "x = 1\ndisplay(x + 41)"),
        ("code", "from __future__ import (\n    annotations,\n)\ny: Unknown = 2"),
    ]
    assert _run(_notebook(tmp_path / "a.ipynb", cells))["y"] == 2
    assert capsys.readouterr().out == "42\n"


def test_a_notebook_of_version_3_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.ipynb"
    cells = [
        {"cell_type": "heading", "level": 1, "source": ["Old"]},
        {"cell_type": "code", "input": ["x = 1\n", "y = x + 1"], "outputs": []},
    ]
    path.write_text(json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}))
    assert notebook_of(str(path)) == (path, "")
    assert _run(path)["y"] == 2


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([("code", "x = await thing()")], "cell 1 is not valid Python.*await run in Jupyter only"),
        ([("code", "a = 1\nx = !ls")], "cell 1 is not valid Python, in its line 2.*x = !command"),
        ([("code", "return 1")], "cell 1 is not valid Python"),
        ([("markdown", "text")], "has no code"),
        ([("code", "x = await thing()\n)")], "cell 1 is not valid Python, in its line 2"),
        ([("code", 7)], "is not a readable Jupyter notebook"),
        ([("code", "a = '\0'")], "cell 1 is not valid Python"),
    ],
)
def test_what_cannot_run_is_named(
    cells: list[tuple[str, object]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        script_of(_notebook(tmp_path / "a.ipynb", cells))


def test_a_file_that_only_looks_like_a_notebook_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text('{"cells": [{"no": 1}]}')
    with pytest.raises(UsageError, match="is not a readable Jupyter notebook"):
        script_of(path)


def test_names_that_would_end_the_docstring_do_not(tmp_path: Path) -> None:
    path = _notebook(tmp_path / 'a"""; 1 + 1 #.ipynb', [("code", "x = 1")])
    assert runpy.run_path(str(script_of(path)))["x"] == 1
