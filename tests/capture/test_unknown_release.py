"""These tests remove names from torch: the user's program runs, and the session says what is
missing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.exhaustive import rounds

EVERY = rounds(96, exhaustive=1)
"""One name of so many is hidden; an exhaustive run hides all, which takes an hour
(``python -m tests.capture.unknown_release``).
"""

SIDE_EFFECTS = "torch._dynamo.side_effects.SideEffects"
"""The name under which Dynamo keeps what a program changes."""

OPTIONS = "torch._functorch.config"
"""A whole module, with the options of AOTAutograd."""


@pytest.mark.skipif(sys.platform != "linux", reason="its captures are forked")
def test_a_name_that_torch_lacks_costs_its_view_alone() -> None:
    module = "tests.capture.unknown_release"
    command = [sys.executable, "-m", module, SIDE_EFFECTS, OPTIONS, "--every", str(EVERY)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = f"{ended.stdout}\n{ended.stderr}"
    assert ended.returncode == 0, printed
    assert f"✓ {SIDE_EFFECTS}: told" in ended.stdout, printed
    assert f"✓ {OPTIONS}: told" in ended.stdout, printed
    told = [line for line in ended.stdout.splitlines() if line.endswith(": told")]
    assert len(told) > 2, "names that a capture asks for are among them"
