"""These tests run pytest with the plugin on test files of projects: markers, the fixture, unittest
classes and the assertions, in one run; and what the plugin costs where nobody uses it.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fx_explorer.fixes_of_tests import HELPS, ChangeForTest, try_change
from fx_explorer.model import Compilation
from fx_explorer.session import SessionReader
from tests.exhaustive import in_exhaustive_runs
from tests.shared_files import ROOT

PROJECT = """
import unittest

import pytest
import torch

from fx_explorer.testing import (
    NotAsExpected,
    assert_close_to_eager,
    assert_fused,
    assert_no_graph_breaks,
    assert_no_recompiles,
    assert_not_worse,
    assert_same_code,
)


def fine(x):
    return torch.relu(x * 2).sum()


def breaks(x):
    x = x * 2
    print("here")
    return x.sum()


def by_number(x, number):
    return x * number


compiled = torch.compile(fine, backend="eager")
compiled(torch.ones(3))  # before any test


@pytest.mark.fx(max_graph_breaks=0)
def test_marker_that_holds():
    assert compiled(torch.ones(3)) == 6


@pytest.mark.fx(max_graph_breaks=0, build=False)
@pytest.mark.parametrize("size", [2, 3])
def test_marker_that_does_not(size):
    torch.compile(breaks)(torch.ones(size))


@pytest.mark.fx(max_graph_breaks=0)
def test_nothing_is_compiled():
    fine(torch.ones(3))


@pytest.mark.fx(max_graph_brakes=0)
def test_unknown_condition():
    pass


@pytest.mark.fx(max_graph_breaks=0, build=False)
def test_that_raises():
    torch.compile(breaks)(torch.ones(3))
    raise ValueError("its own")


def test_fixture(fx_capture):
    with fx_capture(build=False) as recorded:
        torch.compile(breaks)(torch.ones(3))
    recorded.check(max_graph_breaks=1)
    assert recorded.session.exists()
    with pytest.raises(NotAsExpected, match="test_project.py:24: .*0 allowed"):
        recorded.check(max_graph_breaks=0)


def helper(x):
    return x + 1 if x.sum() > 0 else x - 1


def calls_helper(x):
    return helper(x * 2).cos()


def test_of_an_assertion():
    assert_no_graph_breaks(torch.compile(calls_helper, backend="eager"), torch.ones(3))


@pytest.mark.fx(max_graph_breaks=0)
def test_that_is_skipped():
    compiled(torch.ones(3))
    pytest.skip("not here")


class TestUnit(unittest.TestCase):
    @pytest.mark.fx(max_graph_breaks=0, build=False)
    def test_unit(self):
        torch.compile(breaks)(torch.ones(3))


def test_assertions(tmp_path):
    assert assert_no_graph_breaks(compiled, torch.ones(3)) == 6
    with pytest.raises(NotAsExpected, match="breaks the graph|graph breaks"):
        assert_no_graph_breaks(torch.compile(breaks, backend="eager"), torch.ones(3))
    once = torch.compile(by_number, backend="eager", dynamic=False)
    with pytest.raises(NotAsExpected, match="recompile"):
        assert_no_recompiles(once, (torch.ones(3), 2), (torch.ones(3), 3))
    assert_no_recompiles(once, (torch.ones(3), 2), (torch.ones(3), 2))
    assert_fused(fine, torch.ones(3), operators=("relu", "mul"))
    with pytest.raises(NotAsExpected, match="sort in no generated kernel"):
        assert_fused(fine, torch.ones(3), operators=("relu", "sort"))
    baseline = tmp_path / "net.json"
    assert_not_worse(torch.compile(fine), torch.ones(3), baseline=baseline, update=True)
    assert_not_worse(torch.compile(fine), torch.ones(3), baseline=baseline)
    with pytest.raises(NotAsExpected, match="FAIL: graph breaks: 0 in the baseline, 1 now"):
        assert_not_worse(torch.compile(breaks), torch.ones(3), baseline=baseline)
    code = tmp_path / "code.txt"
    assert_same_code(fine, torch.ones(3), baseline=code, update=True)
    assert_same_code(fine, torch.ones(3), baseline=code)
    with pytest.raises(NotAsExpected, match="different kernels are generated"):
        assert_same_code(lambda x: torch.sin(x).sum(), torch.ones(3), baseline=code)


class Wrong(torch.nn.Module):
    def forward(self, x):
        return x * 2 if torch.compiler.is_compiling() else x * 3


class NarrowAndWrong(Wrong):
    def forward(self, x):
        if x.dtype == torch.float64:
            raise RuntimeError("only 32 bits")
        return super().forward(x)


def test_close_to_eager():
    assert_close_to_eager(fine, torch.randn(64))
    assert_close_to_eager(torch.nn.Linear(4, 4), torch.randn(2, 4))
    assert_close_to_eager(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()), torch.randn(9, 4))
    with pytest.raises(NotAsExpected, match="does not run in float64.*RuntimeError: only 32"):
        assert_close_to_eager(NarrowAndWrong(), torch.ones(3))
    with pytest.raises(NotAsExpected, match="PyTorch's own rule"):
        assert_close_to_eager(Wrong(), torch.ones(3))
"""


NAME = "fx_explorer.pytest_plugin"

IS_INSTALLED = any(point.value == NAME for point in entry_points(group="pytest11"))

PLUGIN = () if IS_INSTALLED else ("-p", NAME)
"""An installation from before the plugin does not know it yet."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, inductor_cache: Path) -> str:
    folder = tmp_path_factory.mktemp("project")
    (folder / "test_project.py").write_text(PROJECT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(inductor_cache)
    arguments = [*PLUGIN, "-p", "no:xdist", "-q", "-rA", "--no-header"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "test_project.py"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    return ended.stdout + ended.stderr


def test_each_test_ends_as_it_should(ran: str) -> None:
    lines = re.findall(r"^(PASSED|FAILED) test_project\.py::(\S+)", ran, re.M)
    ends = {name: verdict for verdict, name in lines}
    assert ends == {
        "test_marker_that_holds": "PASSED",
        "test_marker_that_does_not[2]": "FAILED",
        "test_marker_that_does_not[3]": "FAILED",
        "test_nothing_is_compiled": "FAILED",
        "test_unknown_condition": "FAILED",
        "test_that_raises": "FAILED",
        "test_fixture": "PASSED",
        "TestUnit::test_unit": "FAILED",
        "test_of_an_assertion": "FAILED",
        "test_assertions": "PASSED",
        "test_close_to_eager": "PASSED",
    }, ran


def test_a_failure_reads_as_a_check(ran: str) -> None:
    assert "test_project.py:24: graph breaks hit 1 time, 0 allowed (max_graph_breaks=0)" in ran
    assert "\n  torch's hint: " in ran, "what to do"
    assert "\nnothing was compiled, so the conditions cannot be judged: " in ran
    assert "in assert_no_graph_breaks" not in ran, "the traceback ends with the user's line"
    assert "During handling" not in ran
    failures = ran.partition("= PASSES =")[0]
    assert "torch.__trace" not in failures, "torch's trace is no log of the test"
    assert "there is no condition 'max_graph_brakes'" in ran
    assert "ValueError: its own" in ran
    assert "PluggyTeardownRaisedWarning" not in ran
    sessions = re.findall(r"session: fx-explorer (\S+\.fxs)", ran)
    assert len(set(sessions)) == 5
    for session in sessions:
        assert stat.S_IMODE(Path(session).stat().st_mode) == 0o600
    beside = [session for session in sessions if ".pytest_cache" in session]
    assert len(set(beside)) == 4
    # Those of tests that hold, and of a skipped one, are gone; test_fixture keeps its own.
    assert len(list(Path(beside[0]).parent.glob("*.fxs"))) == 4 + 2


IN_WORKERS = """
import os
import pytest
import torch


@pytest.mark.fx(max_graph_breaks=0, build=False)
@pytest.mark.parametrize("size", [2, 3])
def test_sizes(size):
    torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(size))


@pytest.mark.fx(max_graph_breaks=0, build=False)
def test_that_dies():
    torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(3))
    os.abort()
"""


def test_a_worker_of_xdist_that_dies_leaves_a_session_which_is_named(tmp_path: Path) -> None:
    (tmp_path / "test_workers.py").write_text(IN_WORKERS)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-n", "2", "-q", "-rA", "test_workers.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert re.search(r"1 failed, 2 passed", ended.stdout), ended.stdout
    crashed = r"crashed while running 'test_workers.py::test_that_dies'\nsession: fx-explorer (\S+)"
    named = re.search(crashed, ended.stdout)
    assert named, ended.stdout
    with SessionReader(named[1]) as reader:
        assert [row.status for row in reader.rows(Compilation)] == ["ok"]


WITHOUT_TORCH = """
import sys


class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


sys.meta_path.insert(0, Refused())
"""

TESTS_WITHOUT_TORCH = """
import pytest


def test_without_us():
    pass


@pytest.mark.fx(max_graph_breaks=0)
def test_marked():
    pass


def test_fixture(fx_capture):
    with fx_capture():
        pass
"""


def test_without_torch_only_a_test_that_needs_it_fails_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(WITHOUT_TORCH)
    (tmp_path / "test_it.py").write_text(TESTS_WITHOUT_TORCH)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGIN, "-p", "no:xdist", "-q", "test_it.py"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert "2 failed, 1 passed" in ended.stdout, ended.stdout
    reason = "what torch.compile does cannot be recorded: No module named 'torch'"
    assert f"\n{reason}\n" in ended.stdout
    assert f"UsageError: {reason}" in ended.stdout


def test_the_plugin_imports_nothing_until_it_is_used() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import fx_explorer.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    imported = set(ast.literal_eval(ended.stdout))
    assert imported <= {"fx_explorer", "fx_explorer.publishing", "fx_explorer.pytest_plugin"}


BROKEN = """
import pytest
import torch

from net import by_value, fine


@pytest.mark.fx(max_graph_breaks=0, build=False)
def test_by_value():
    assert torch.compile(by_value, backend="eager")(torch.ones(3)).sum() == 9


@pytest.mark.fx(max_guards=0, build=False)
def test_guards():
    torch.compile(fine, backend="eager")(torch.ones(3))
"""

NET = """def by_value(x):
    scale = x.sum().item()
    return x * scale


def fine(x):
    return x * 2
"""


@in_exhaustive_runs
def test_a_change_that_was_tried_stands_in_the_failure_and_the_file_is_unchanged(
    tmp_path: Path,
) -> None:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "test_net.py").write_text(BROKEN)
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *PLUGIN,
            "-p",
            "no:xdist",
            "-q",
            "--fx-try",
            "test_net.py",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert "may help, not tried:\n  keep the value in a tensor" in run.stdout
    assert "Tried: keep the value in a tensor: the test passes with it." in run.stdout
    assert "+    scale = x.sum().detach()" in run.stdout
    assert "No known change may help." in run.stdout
    assert "2 failed" in run.stdout
    assert (tmp_path / "net.py").read_text() == NET


def test_a_change_with_which_the_test_fails_is_no_help(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(
        "import one\n\ndef test_one():\n    assert one.VALUE == 2\n"
    )
    (tmp_path / "one.py").write_text("VALUE = 1\n")
    results = []
    for value in (2, 3):
        change = ChangeForTest("", {str(tmp_path / "one.py"): f"VALUE = {value}\n"})
        results.append(try_change(change, "test_one.py::test_one", PLUGIN, tmp_path, 300))
    assert results[0] == HELPS
    assert results[1].startswith("the test failed with it: ")
    assert try_change(ChangeForTest(""), "test_none.py", PLUGIN, tmp_path, 300).startswith(
        "not known, pytest ended with 4"
    )
