"""Frameworks that call a compiled model for the user, and what each offers against recompiles.

A tensor that a framework makes, or a line of its code, is nothing that the user can change; an
argument of the framework's is. Each entry names arguments from the framework's documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.session import SessionReader

_TORCHS = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]|<frozen ")


@dataclass(frozen=True, slots=True)
class Framework:
    name: str
    path: re.Pattern[str]
    """Matches the files of the framework that call the model."""
    sizes: str
    """What to do when sizes vary from call to call."""
    others: str = ""
    """What to do when something else varies; empty where it offers nothing."""
    others_of: str = ""
    """A pattern of the names of what varies, for which ``others`` helps; empty for anything."""
    expected: str = ""
    """Why something else than a size varies in any program; empty where nothing need."""

    def offered_for(self, name: str) -> str:
        """Return what to do when a value of this name varies, which is no size; empty where it
        offers nothing.
        """
        return self.others if re.search(self.others_of, name) else ""


def _framework(
    name: str, path: str, sizes: str, others: str = "", expected: str = "", others_of: str = ""
) -> Framework:
    pattern = re.compile(path.replace("/", r"[/\\]"))
    return Framework(name, pattern, sizes, others, others_of, expected)


FRAMEWORKS: tuple[Framework, ...] = (
    _framework(
        "generate() of transformers",
        r"/transformers/generation/",
        'Give generate() the same max_length in each call, with cache_implementation="static", so '
        "that its cache keeps its size; and pad the prompts to one length "
        '(tokenizer(…, padding="max_length", max_length=N), padding_side="left").',
        expected="generate() calls the model in two forms: once for the prompt, and once for each "
        "further token. Both compilations stay in use.",
    ),
    _framework(
        "the Trainer of transformers",
        r"/transformers/trainer",
        "Give the Trainer batches of few sizes: a collator that pads to a multiple "
        "(DataCollatorWithPadding(tokenizer, pad_to_multiple_of=64), or "
        "DataCollatorForLanguageModeling with pad_to_multiple_of), and "
        "TrainingArguments(dataloader_drop_last=True) for the last batch.",
    ),
    _framework(
        "PyTorch Lightning",
        r"/(?:pytorch_lightning|lightning)/",
        "Give the Trainer batches of one size: DataLoader(…, drop_last=True), and a collate_fn "
        "that pads.",
        "Compile the module that computes (self.net) instead of the whole LightningModule.",
    ),
    _framework(
        "PEFT",
        r"/peft/",
        "Pad the inputs to a few sizes.",
        "Call peft.utils.hotswap.prepare_model_for_compiled_hotswap(model, target_rank=R), with "
        "the highest rank, after the first adapter is loaded and before compiling. Swap adapters "
        "with hotswap_adapter: ranks and scalings then do not recompile.",
        others_of=r"lora|scaling|adapter",
    ),
    _framework(
        "Accelerate",
        r"/accelerate/",
        "Make batches of one size (drop_last=True, padding in the collate_fn), or compile for all "
        'sizes: Accelerator(dynamo_plugin=TorchDynamoPlugin(backend="inductor", dynamic=True)).',
    ),
    _framework(
        "diffusers",
        r"/diffusers/",
        "Call the pipeline with one height, width and batch size, or compile its model with "
        "dynamic=True.",
        "Call pipe.enable_lora_hotswap(target_rank=R), with the highest rank, before the first "
        "pipe.load_lora_weights(…), and compile after that. Load later ones with hotswap=True, "
        "under the same adapter_name: ranks and scalings then do not recompile.",
        others_of=r"lora|scaling|adapter",
    ),
    _framework(
        "DistributedDataParallel",
        r"/torch/nn/parallel/distributed",
        "Give each rank batches of one size: DataLoader(…, drop_last=True), and a collate_fn that "
        "pads. drop_last of DistributedSampler gives every rank the same number of samples, but "
        "does not fill the last batch.",
    ),
)


@dataclass(frozen=True, slots=True)
class FrameworkCaller:
    """Who calls a compiled function."""

    frame: model.Frame | None
    """The user's own innermost line on the way; None where there is none."""
    framework: Framework | None
    """The framework between that line and the function; None where the user calls it."""
    is_users: bool = True
    """Whether a line of the user's calls the function itself, and gives it its arguments."""


def caller_of(reader: SessionReader, compilation: model.Compilation) -> FrameworkCaller:
    """Return who called a function that was compiled."""
    stacks = reader.by_ids(model.Stack, [compilation.stack]) if compilation.stack else []
    frames = list(stacks[0].frames) if stacks else []
    users = {row.path for row in reader.rows(model.SourceFile) if row.is_user}
    own = next((frame for frame in reversed(frames) if frame.file in users), None)
    outside = [frame for frame in frames if not _TORCHS.search(frame.file)]
    if not outside or outside[-1].file in users:
        return FrameworkCaller(own, None)
    below = frames[frames.index(own) + 1 :] if own else frames
    for frame in below:
        for framework in FRAMEWORKS:
            if framework.path.search(frame.file):
                return FrameworkCaller(own, framework, is_users=False)
    return FrameworkCaller(own, None, is_users=False)
