"""These tests check the finding on hooks that move weights, on a stand-in for Accelerate's file: the
hook is kept out of compilation, and stands around each module.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.framework_hooks import is_of_hooks

HOOKS = """
import torch

@torch.compiler.disable
def move(x):
    return x

def add_hook(module):
    forward = module.forward
    def new_forward(x):
        return move(forward(move(x)))
    module.forward = new_forward

def cpu_offload(model):
    for module in model.children():
        add_hook(module)
"""

PROGRAM = """
import torch
from accelerate.hooks import cpu_offload

model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
cpu_offload(model)
compiled = torch.compile(model, backend="eager")
compiled(torch.ones(1, 2))
"""


def test_breaks_of_hooks_are_one_finding_with_the_line_that_puts_them(
    tmp_path: Path, captured, reader
) -> None:
    package = tmp_path / "site-packages" / "accelerate"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "hooks.py").write_text(HOOKS)
    file = tmp_path / "offloaded.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(package.parent)!r})\n{PROGRAM}")
    everything = findings(reader(captured(file)))
    (finding,) = [finding for finding in everything if finding.kind == "framework hooks"]
    assert finding.place is not None
    assert finding.place.line + 1 == 8
    assert "They come from offloaded.py:8: cpu_offload(model)" in finding.evidence
    assert not [other for other in everything if other.kind in ("graph break", "recompile")]


@pytest.mark.parametrize(
    ("file", "is_hook"),
    [
        ("/x/site-packages/accelerate/hooks.py", True),
        ("C:\\x\\diffusers\\hooks\\group_offloading.py", True),
        ("/x/site-packages/accelerate/accelerator.py", False),
        ("/home/me/hooks.py", False),
    ],
)
def test_which_files_are_hooks(file: str, is_hook: bool) -> None:
    assert is_of_hooks(file) is is_hook
