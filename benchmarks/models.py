"""Models of all sizes, built from small configurations with random weights: the subjects of
benchmarks and tests.

Also a target:
``fx-explorer capture benchmarks/models.py --call "build('llama2')" --inputs "inputs('llama2')"``.
Names: mlp, resnet, llamaN (N layers), gpt2 (4 layers), gpt2-N, bert, t5, vit, convnextv2, and of
the samples: transformer, convnet, regions. With graph breaks, for what crosses them: keeping, which
keeps a large value, and dropping, which does not.
"""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

SAMPLES = Path(__file__).parents[1] / "sample_models"
VOCABULARY = 128


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(32, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()
        )
        widths = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
        self.blocks = nn.Sequential(*(ResidualBlock(*width) for width in widths))
        self.head = nn.Linear(64, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


def llama(layers: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=VOCABULARY,
        max_position_embeddings=64,
        use_cache=False,
    )
    return LlamaForCausalLM(config)


def gpt2(layers: int = 4) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    tokens = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(
        GPT2Config(n_layer=layers, n_embd=128, n_head=4, n_positions=64, use_cache=False, **tokens)
    )


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        vocab_size=VOCABULARY,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def t5() -> nn.Module:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        vocab_size=VOCABULARY,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return T5ForConditionalGeneration(config)


def vit() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
        num_labels=3,
    )
    return ViTForImageClassification(config)


def convnextv2() -> nn.Module:
    from transformers import ConvNextV2Config, ConvNextV2ForImageClassification

    config = ConvNextV2Config(
        depths=[3, 3, 9, 3], hidden_sizes=[8, 16, 32, 64], image_size=64, num_labels=3
    )
    return ConvNextV2ForImageClassification(config)


class Result(NamedTuple):
    loss: torch.Tensor
    kept: torch.Tensor | None


class Dropping(nn.Module):
    """Two graphs. The first one returns a large value that no backward needs."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(32, 1024).requires_grad_(False)
        self.head = nn.Linear(32, 1024)

    def forward(self, x: torch.Tensor) -> Result:
        large = F.gelu(self.up(x))
        self.note(large)
        return Result(self.head(x).square().mean(), self.kept(large))

    @torch.compiler.disable
    def note(self, large: torch.Tensor) -> None: ...

    def kept(self, large: torch.Tensor) -> torch.Tensor | None:
        return None


class Keeping(Dropping):
    def kept(self, large: torch.Tensor) -> torch.Tensor:
        return large


SAMPLE_CLASSES = {"transformer": "Transformer", "convnet": "ConvNet", "regions": "Marked"}


def sample(name: str) -> nn.Module:
    return runpy.run_path(str(SAMPLES / f"{name}.py"))[SAMPLE_CLASSES[name]]()


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "mlp": MLP,
    "resnet": ResNet,
    "gpt2": gpt2,
    "bert": bert,
    "t5": t5,
    "vit": vit,
    "convnextv2": convnextv2,
    "keeping": Keeping,
    "dropping": Dropping,
}


def build(name: str) -> nn.Module:
    """The model called ``name``, in training mode, with the same random weights each time."""
    torch.manual_seed(0)
    layers = re.fullmatch(r"(llama|gpt2-)(\d+)", name)
    if layers:
        return (llama if layers[1] == "llama" else gpt2)(int(layers[2])).train()
    return (sample(name) if name in SAMPLE_CLASSES else BUILDERS[name]()).train()


def inputs(name: str) -> dict[str, Any] | tuple[Any, ...]:
    """Example inputs for ``build(name)``: keyword arguments or a tuple; with labels where the model
    has a loss.
    """
    torch.manual_seed(1)
    tokens = torch.randint(0, VOCABULARY, (2, 16))
    if name.startswith(("llama", "gpt2")) or name == "t5":
        return {"input_ids": tokens, "labels": tokens}
    if name == "transformer":
        return {"tokens": tokens, "labels": tokens}
    if name == "bert":
        return {"input_ids": tokens, "labels": torch.tensor([0, 2])}
    if name in ("vit", "convnextv2"):
        size = 32 if name == "vit" else 64
        return {"pixel_values": torch.randn(2, 3, size, size), "labels": torch.tensor([0, 2])}
    shape = {"mlp": (4, 32), "keeping": (4, 32), "dropping": (4, 32), "regions": (2, 8, 32)}.get(
        name, (2, 3, 16, 16)
    )
    return (torch.randn(shape),)


def batched(name: str, batch: int) -> dict[str, Any] | tuple[Any, ...]:
    """Example inputs for ``build(name)`` with another batch: the example's rows again and again."""
    example = inputs(name)

    def repeated(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[torch.arange(batch) % tensor.shape[0]]

    if isinstance(example, dict):
        return {key: repeated(tensor) for key, tensor in example.items()}
    return tuple(repeated(tensor) for tensor in example)


def train_step(function: Callable[..., Any], example: dict[str, Any] | tuple[Any, ...]) -> None:
    """One forward and one backward."""
    output = function(**example) if isinstance(example, dict) else function(*example)
    loss = output.loss if hasattr(output, "loss") else output.sum()
    loss.backward()
