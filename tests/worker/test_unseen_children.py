"""These tests check what keeps a started Python from being recorded, and which programs count as
Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from torch._inductor.cpu_vec_isa import VecISA

from fx_explorer.client.descendants import LOOK_S, Descendants, is_vector_probe
from fx_explorer.program.children import _why_unseen


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ([], ""),
        (["-u"], ""),
        (["-I"], "-I"),
        (["-u", "-I"], "-I"),
        (["-uE"], "-uE"),
        (["-m", "-I"], ""),
        (["-c", "-S"], ""),
        (["-Ic", "pass"], "-Ic"),
        (["--check-hash-based-pycs", "always"], ""),
        (["train.py", "-I"], ""),
    ],
)
def test_an_option_that_keeps_python_from_its_environment_is_named(
    options: list[str], named: str
) -> None:
    told = _why_unseen(sys.executable, ["python", *options], None)
    assert told == (
        f"it was started with {named}, which makes Python ignore its environment" if named else ""
    )


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells who started what")
def test_the_end_of_a_process_that_we_are_just_starting_is_left_to_who_starts_it() -> None:
    with subprocess.Popen(["sleep", "1000"]) as worker:
        following = Descendants("a mark of its own", "/a/hook")
        following.begin(worker.pid, None)
        ours = os.fork()
        if ours == 0:
            time.sleep(3 * LOOK_S)
            os._exit(7)
        time.sleep(8 * LOOK_S)
        following.stop()
        worker.kill()
        _, status = os.waitpid(ours, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_process_in_which_torch_probes_vector_instructions_compiles_nothing() -> None:
    probe = VecISA._avx_py_load.replace("__lib_path__", "/tmp/torchinductor_me/abc.so")
    assert is_vector_probe([sys.executable, "-c", probe])
    assert is_vector_probe([sys.executable, "-c", f"import torch\n{probe.strip()[-70:]}"]) is False
    assert not is_vector_probe([sys.executable, "-c", f"{probe}\ntorch.compile(f)(x)"])
    assert not is_vector_probe([sys.executable, "probe.py", probe])
    assert not is_vector_probe([])
