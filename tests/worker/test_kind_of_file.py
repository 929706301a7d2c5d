"""These tests check that only files named like Python are run; for other files, the message says
what they look like, and what to do.
"""

from __future__ import annotations

import gzip
import pickle
import sqlite3
import zipfile
from pathlib import Path

import pytest

from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program.place import TargetPlace, locate
from fx_explorer.readers.torch_trace.records import Damage, records
from tests.worker.capturing import capture

TRACES = Path(__file__).parents[1] / "data" / "torch_trace"

TRACE = b'V1122 07:00:00.000000 1 torch/_logging/structured.py:28] {"str": ["/m.py", 0]}\n'

NO_PYTHON_BY_NAME = {
    "notes.txt": (b"x = 1\n", "text"),
    "train.log": (b"epoch 1: loss 0.3\n", "text"),
    "trace.log": (TRACE, "a TORCH_TRACE log"),
    "dedicated_log_torch_trace_x": (TRACE, "a TORCH_TRACE log"),
    "model.ipynb": (b'{"cells": [], "nbformat": 4}', "Run its code cells with: fx-explorer"),
    "large.ipynb": (b'{"metadata": {"a": "' + b"x" * 9000 + b'"}, "cells": []}', "a notebook"),
    "config.json": (b'{"hidden_size": 768}', "JSON"),
    "long.json": (b'{"a": [' + b"1, " * 9000 + b"1]}", "JSON"),
    "deep.json": (b"[" * 9000, "JSON"),
    "empty": (b"", "an empty file"),
    "start.sh": (b"#!/bin/sh\npython train.py\n", "text"),
    "latin": (b"caf\xe9 = 1\n", "text"),
    "odd\x1bname.md": (b"# Title\n", "text"),
}

BINARY = {
    "model.py.gz": (gzip.compress(b"import torch\n"), "gunzip -k"),
    "old.pt": (pickle.dumps({"weight": [1.0]}, protocol=2), "a model checkpoint"),
    "model.safetensors": (
        b"\x48" + b"\0" * 7 + b'{"weight":{"dtype":"F32"}}',
        "a model checkpoint",
    ),
    "random.bin": (b"\1\2\0\3", "binary data"),
    "binary.py": (b"\1\2\0\3", "binary data"),
    "a.out": (b"\x7fELF\2\1", "a program or library"),
    "weights.h5": (b"\x89HDF\r\n", "HDF5"),
    "wide.py": ("x = 1\n".encode("utf-16"), "Save it in UTF-8"),
    "tool": (b"#!/usr/bin/env python3\nPK\x03\x04\0\0", "a zip archive for Python to run"),
    "my model {0}.gz": (gzip.compress(b""), "gunzip -k '"),
}


def place(file: Path | str, **request: object) -> TargetPlace:
    return locate(CaptureRequest(str(file), "", as_script=True, **request))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NO_PYTHON_BY_NAME)
def test_what_is_no_python_by_name_is_told_for_what_it_looks_like(
    name: str, tmp_path: Path
) -> None:
    content, words = NO_PYTHON_BY_NAME[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError, match="is not that of a Python file") as refused:
        place(tmp_path / name)
    assert words in str(refused.value)
    assert "--as-python" in str(refused.value)
    assert refused.value.exit_code == 2
    assert place(tmp_path / name, as_python=True).file == tmp_path / name


def test_torchs_program_of_a_graph_is_python_under_tlparses_name(tmp_path: Path) -> None:
    log = gzip.decompress((TRACES / "h200_user_triton.log.gz").read_bytes())
    of_log = filter(None, records([log], Damage()))
    program = next(record.payload for record in of_log if record.name == "fx_graph_runnable")
    file = tmp_path / "fx_graph_runnable_12.txt"
    file.write_text(program)
    assert place(file).file == file
    file.write_text(program.replace("class Repro(torch.nn.Module)", "class Other"))
    with pytest.raises(TargetError, match="is not that of a Python file"):
        place(file)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("as_python", [False, True])
def test_what_python_cannot_read_is_not_run_whatever_it_is_called(
    name: str, as_python: bool, tmp_path: Path
) -> None:
    content, words = BINARY[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError, match="is not a Python file: it is ") as refused:
        place(tmp_path / name, as_python=as_python)
    assert words in str(refused.value)
    assert "--as-python" not in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_session_and_a_checkpoint_are_told_apart_from_other_archives(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "s.db") as database:
        database.execute("CREATE TABLE t (x)")
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("model/data.pkl", b"")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("x.txt", b"")
    for name, words in (
        ("s.db", "an SQLite database"),
        ("model.pt", "a model checkpoint"),
        ("other.zip", "a zip archive"),
    ):
        with pytest.raises(TargetError, match=words):
            place(tmp_path / name)


@pytest.mark.parametrize("name", ["model.py", "model.pyw", "tool", "link"])
def test_python_by_name_by_its_first_line_and_behind_a_link_is_run(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text("x = 1\n")
    (tmp_path / "model.pyw").write_text("x = 1\n")
    (tmp_path / "tool").write_text("#!/usr/bin/env python3\nx = 1\n")
    (tmp_path / "link").symlink_to("model.py")
    assert place(tmp_path / name).is_script


@pytest.mark.usefixtures("warm_workers")
async def test_a_directory_with_a_main_runs_as_python_runs_it(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "beside.py").write_text("WORD = 'beside'\n")
    (tmp_path / "app" / "__main__.py").write_text(
        "import sys, beside\nprint(__name__, sys.argv, beside.WORD)\n"
    )
    ended = await capture(tmp_path / "app", arguments=("--x",))
    assert ended.printed() == [f"__main__ {[str(tmp_path / 'app'), '--x']} beside"]
