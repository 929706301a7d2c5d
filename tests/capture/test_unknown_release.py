"""These tests remove names from torch: the user's program runs, and the session says what is
missing.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.exhaustive import IS_EXHAUSTIVE

NAMES = (
    "torch._dynamo.output_graph.OutputGraph.call_user_compiler",
    "torch._functorch.config",
)
"""The method that hands a graph to its backend, and a whole module, with the options of AOTAutograd."""

OTHERS = ("--every", "1") if IS_EXHAUSTIVE else ()
"""An exhaustive run hides all names, which takes an hour
(``python -m tests.capture.unknown_release``).
"""


@pytest.mark.skipif(sys.platform != "linux", reason="its captures are forked")
def test_a_name_that_torch_lacks_costs_its_view_alone() -> None:
    module = "tests.capture.unknown_release"
    command = [sys.executable, "-m", module, *NAMES, *OTHERS]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    printed = f"{ended.stdout}\n{ended.stderr}"
    assert ended.returncode == 0, printed
    for name in NAMES:
        assert f"✓ {name}: told" in ended.stdout, printed
