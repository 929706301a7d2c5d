"""These tests check what graph breaks in libraries have as remedies: what their user can change, and
nothing that cuts gradients.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer.findings.every_kind import findings

LIBRARY = """
import logging
import torch

logger = logging.getLogger(__name__)

def default_loss(x):
    logger.warning(
        f"`loss_type={None}` was set in the config but it is unrecognized. "
        f"Using the default loss: `ForCausalLMLoss`."
    )
    return x.sum()

def make_inputs_require_grads(x):
    output = x * 2
    output.requires_grad_(True)
    return output
"""

PROGRAM = """
import torch
from transformers import modeling_utils

class TinyForCausalLM(torch.nn.Linear):
    def forward(self, x):
        if getattr(self, "loss_type", None) is None:
            return modeling_utils.default_loss(super().forward(x))
        return super().forward(x).sum()

class Hooked(torch.nn.Linear):
    def forward(self, x):
        return super().forward(modeling_utils.make_inputs_require_grads(x))

model = TinyForCausalLM(2, 2)
torch.compile(model, backend="eager")(torch.ones(1, 2))
torch.compile(Hooked(2, 2), backend="eager")(torch.ones(1, 2))
"""


def test_a_break_in_a_library_has_what_its_user_can_set(tmp_path: Path, captured, reader) -> None:
    package = tmp_path / "site-packages" / "transformers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "modeling_utils.py").write_text(LIBRARY)
    file = tmp_path / "logged.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(package.parent)!r})\n{PROGRAM}")
    everything = findings(reader(captured(file)))
    (logged,) = [finding for finding in everything if "It logged" in finding.detail]
    (remedy,) = logged.remedies
    assert remedy.text == 'Set model.loss_type = "ForCausalLM" after creating the model.'
    assert '; model.loss_type = "ForCausalLM"' in remedy.changes["overlay"][str(file)]
    of_hook = [finding for finding in everything if "enable_input_require_grads" in finding.detail]
    assert of_hook
    assert not [finding for finding in everything if "detach()" in finding.detail]
