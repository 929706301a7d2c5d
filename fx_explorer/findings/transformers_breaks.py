"""Graph breaks inside transformers and peft whose remedy is a setting of theirs, or a call that the
user's program can make. A trial adds it to the program where the model is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.findings.compile_edits import setting_on_model
from fx_explorer.findings.finding import Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class _KnownBreak:
    file: re.Pattern[str]
    code: re.Pattern[str]
    """Matches the line that breaks."""
    text: str
    on_model: str = ""
    """What a trial adds after the name of the model and a point; empty where none can be made."""


def _known(file: str, code: str, text: str, on_model: str = "") -> _KnownBreak:
    return _KnownBreak(re.compile(file), re.compile(code), text, on_model)


_IN_TRANSFORMERS = r"[/\\]transformers[/\\]"

_INSTALLS_HOOKS = r"[/\\]transformers[/\\]utils[/\\]output_capturing\.py$"

_KNOWN_BREAKS = (
    _known(
        r"[/\\](?:transformers|peft)[/\\]",
        r"\.requires_grad_\(",
        "Leave out model.enable_input_require_grads(): only re-entrant checkpointing needs it. "
        'With gradient_checkpointing_kwargs={"use_reentrant": False} gradients reach the '
        "parameters without it.",
    ),
    _known(
        _INSTALLS_HOOKS,
        "",
        "Call the model once before you give it to torch.compile: the first call of a "
        "transformers model installs the hooks that collect hidden states and attentions.",
    ),
    _known(
        r"[/\\]transformers[/\\]integrations[/\\]moe\.py$",
        "",
        'Call model.set_experts_implementation("batched_mm") after creating the model: experts '
        "then use one batched multiplication, which takes more memory with many tokens.",
        on_model='set_experts_implementation("batched_mm")',
    ),
    _known(
        _IN_TRANSFORMERS + r"models[/\\]",
        r"expert",
        'Call model.set_experts_implementation("grouped_mm") after creating the model, or pass '
        'experts_implementation="grouped_mm" to from_pretrained: experts then need no Python '
        "loop.",
        on_model='set_experts_implementation("grouped_mm")',
    ),
    _known(
        _IN_TRANSFORMERS + r"models[/\\]",
        r"hidden_states\.requires_grad = True",
        "If the convolutions that read the audio are not trained, as in most fine-tuning, call "
        "model.freeze_feature_encoder() after creating the model. They then get no gradients.",
        on_model="freeze_feature_encoder()",
    ),
    _known(
        _IN_TRANSFORMERS + r"models[/\\]",
        r"\blayerdrop\b|\bskip_the_layer\b",
        "If no layer has to be dropped, set the layerdrop of the configuration to 0 "
        "(encoder_layerdrop, decoder_layerdrop, layerdrop). That changes the training.",
        on_model=(
            "apply(lambda module: hasattr(module, 'layerdrop') and setattr(module, 'layerdrop', 0))"
        ),
    ),
)
"""Breaks of transformers 5 and peft, with what their documentation or code offers against each."""


def remedies_in_transformers(
    reader: SessionReader, lines: SourceLines, graph_break: DistinctBreak
) -> Iterator[Remedy]:
    """Yield what transformers and peft offer against a break in their code."""
    for known in _KNOWN_BREAKS:
        if known.file.search(graph_break.file) and known.code.search(graph_break.code):
            changes = _changes(reader, lines, known.on_model) if known.on_model else {}
            yield Remedy(known.text, changes=changes)
            return


def installs_hooks(file: str) -> bool:
    """Return whether a file is that of the code with which transformers installs hooks in the first
    call of a model.
    """
    return re.search(_INSTALLS_HOOKS, file) is not None


LAYER_DROP = re.compile(r"\b(?:layer_?drop|skip_the_layer)\b")
"""Matches the code that decides at random whether a layer runs."""

OF_LAYER_DROP = (
    "LayerDrop decides in each call which layers run, which no single graph can hold. The "
    "function with the loop runs in eager mode, and each layer that it calls is compiled "
    "separately."
)

ALWAYS_COMPUTED = Remedy(
    "To get one graph, compute each layer and choose: x = torch.where(torch.rand([]) < p, x, "
    "layer(x)). Dropped layers then still take time, and their parameters get zero gradients "
    "instead of none."
)

_DEFAULT_LOSS = re.compile(
    r"loss_type=\S{1,40} was set .{1,120}default loss: `?(?P<name>\w+?)Loss\b"
)
"""Matches a warning of transformers/modeling_utils.py, ``loss_function``."""


def loss_type_remedy(reader: SessionReader, lines: SourceLines, logged: str) -> Iterator[Remedy]:
    """Yield the setting that settles transformers' warning about the loss, if that was logged."""
    loss = _DEFAULT_LOSS.search(logged)
    if loss:
        setting = f'loss_type = "{loss["name"]}"'
        yield Remedy(
            f"Set model.{setting} after creating the model.",
            changes=_changes(reader, lines, setting),
        )


def _changes(reader: SessionReader, lines: SourceLines, on_model: str) -> dict[str, dict[str, str]]:
    """Return the user's file with the addition where the model is made; empty without one."""
    for file in reader.rows(model.SourceFile):
        tree = lines.tree(file.path) if file.is_user else None
        edited = setting_on_model(lines.text(file.path), tree, on_model) if tree else None
        if edited:
            return {"overlay": {file.path: edited.text}}
    return {}
