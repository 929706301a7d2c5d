"""These tests remove names from torch: the user's program runs, and the session says what is
missing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT

EVERY = 48
"""So many names are passed over: all of them take an hour
(``python -m tests.capture.unknown_release``).
"""


@pytest.mark.skipif(sys.platform != "linux", reason="its captures are forked")
def test_a_name_that_torch_lacks_costs_its_view_alone() -> None:
    command = [sys.executable, "-m", "tests.capture.unknown_release", "--every", str(EVERY)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    told = [line for line in ended.stdout.splitlines() if line.endswith(": told")]
    assert told, "names that a capture asks for are among them"


def test_what_dynamo_keeps_of_a_program_may_be_called_otherwise() -> None:
    name = "torch._dynamo.side_effects.SideEffects"
    command = [sys.executable, "-m", "tests.capture.unknown_release", name]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"✓ {name}: told" in ended.stdout, f"{ended.stdout}\n{ended.stderr}"
