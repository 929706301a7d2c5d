"""These tests check that recording does not change the compiler's work: generated code is the same,
comments aside, with and without it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.common import cold_environment
from benchmarks.compare_code import difference, recorded_code, without_comments, written_code
from tests.conftest import ROOT
from tests.exhaustive import with_others
from tests.shared_files import locked

MODELS = with_others(["mlp", "regions"], ["convnet", "transformer", "llama1"])
"""The attention of the last two is in programs of tests/capture/undisturbed."""

KERNEL_THAT_DOES_NOTHING = r"""
#include <Python.h>
static PyObject* kernel(PyObject*, PyObject*) { Py_RETURN_NONE; }
static PyMethodDef methods[] = {{"kernel", kernel, METH_VARARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "kernel", NULL, -1, methods};
PyMODINIT_FUNC PyInit_kernel(void) { return PyModule_Create(&definition); }
"""

COMPILER = """#!/bin/sh
# Answers as the compiler does when it is asked about itself, and gives the same library for every kernel.
output=
for argument in "$@"; do
    [ "$before" = -o ] && output=$argument
    before=$argument
done
[ -z "$output" ] && exec "{real}" "$@"
exec cp "{library}" "$output"
"""


@pytest.fixture(scope="module")
def quick_compiler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A C++ compiler whose kernels do nothing. The code that is compared has been written before a
    kernel of it is built, and none of it depends on the values that kernels give: to build all of
    them would take minutes and show nothing more.
    """
    real = shutil.which("g++") or shutil.which("clang++")
    assert real, "Inductor needs a C++ compiler"
    folder = tmp_path_factory.mktemp("compiler")
    source, library, compiler = (
        folder / "kernel.cpp",
        folder / "kernel.so",
        folder / Path(real).name,
    )
    source.write_text(KERNEL_THAT_DOES_NOTHING)
    flags = ["-shared", "-fPIC", f"-I{sysconfig.get_paths()['include']}"]
    if sys.platform == "darwin":
        flags += ["-undefined", "dynamic_lookup"]
    subprocess.run([real, *flags, str(source), "-o", str(library)], check=True)
    compiler.write_text(COMPILER.format(real=real, library=library))
    compiler.chmod(0o755)
    return compiler


BARE = """
import gc, json, os, sys, traceback
from benchmarks import models, one_compile

import torch
from torch._inductor.fx_passes import joint_graph, post_grad

post_grad.lazy_init()  # traces its patterns, once
joint_graph.lazy_init(torch.device("cpu"))
gc.freeze()  # or the first collection of each child would copy what torch has made

for model, folder in json.loads(sys.argv[1]).items():
    pid = os.fork()
    if pid == 0:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        sys.argv = ["one_compile", model, "bare"]
        status = 1
        try:
            one_compile.main()
            ours = [name for name in sys.modules if name.partition(".")[0] == "fx_explorer"]
            assert not ours, ours
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, model
"""


@pytest.fixture(scope="module")
def bare(shared_folder: Path, quick_compiler: Path) -> Path:
    """The folders where Inductor has written its code with nothing of ours in the process, one for
    each model. Each is compiled by a process of its own, forked from one that has imported torch.
    """
    folder = shared_folder / "bare"
    with locked(shared_folder / "bare.lock"):
        if not folder.exists():
            begun = shared_folder / "bare-begun"
            begun.mkdir()
            environment = {
                **cold_environment(begun),
                "CXX": str(quick_compiler),
                "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
                "TORCHINDUCTOR_COMPILE_THREADS": "1",  # or it starts processes to build kernels in
            }
            folders = {model: str(begun / model) for model in MODELS}
            ended = subprocess.run(
                [sys.executable, "-c", BARE, json.dumps(folders)],
                env=environment,
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            assert ended.returncode == 0, ended.stderr[-3000:]
            begun.rename(folder)
    return folder


@pytest.mark.parametrize("model", MODELS)
def test_the_code_of_a_bare_compile_is_the_code_in_the_session(
    model: str, captured_model: Callable[..., Path], bare: Path
) -> None:
    written = written_code(bare / model)  # Inductor's own files
    assert len(written) == 2, "a forward and a backward"
    assert difference(written, recorded_code(captured_model(model))) == ""


def test_a_change_of_generated_code_is_noticed() -> None:
    assert without_comments("a = b // 2  # why\n") == without_comments("a = b // 2\n")
    assert without_comments("a = b // 2\n") != without_comments("a = b // 3\n")
    kernel = "k = cpp(r'''\nauto x = y; // {}\n''')\n"
    assert without_comments(kernel.format("one")) == without_comments(kernel.format("two"))
    assert without_comments(kernel) != without_comments(kernel.replace("y;", "z;"))
