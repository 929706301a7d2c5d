"""This script runs a training step of a small Llama and a small ViT of Hugging Face's, or of those
that are named.
"""

from __future__ import annotations

import sys

import report
import torch
from transformers import LlamaConfig, LlamaForCausalLM, ViTConfig, ViTForImageClassification


def llama() -> None:
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    }
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_key_value_heads=2, vocab_size=256))
    ids = torch.randint(0, 256, (2, 32))
    torch.compile(model)(input_ids=ids, labels=ids, use_cache=False).loss.backward()


def vit() -> None:
    sizes = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    }
    model = ViTForImageClassification(
        ViTConfig(**sizes, image_size=32, patch_size=8, num_labels=10)
    )
    pictures, labels = torch.randn(2, 3, 32, 32), torch.randint(0, 10, (2,))
    torch.compile(model)(pixel_values=pictures, labels=labels).loss.backward()


if __name__ == "__main__":
    programs = {"llama": llama, "vit": vit}
    report.run_all({name: programs[name] for name in sys.argv[1:] or programs})
