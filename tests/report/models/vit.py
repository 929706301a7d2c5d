"""This target is a small vision transformer that classifies, trained for one step on its own loss."""

import torch
from transformers import ViTConfig, ViTForImageClassification


def get_model():
    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=16,
        patch_size=8,
        num_labels=3,
    )
    return ViTForImageClassification(config)


def example_inputs():
    return {
        "pixel_values": torch.linspace(-1, 1, 2 * 3 * 16 * 16).reshape(2, 3, 16, 16),
        "labels": torch.tensor([0, 2]),
    }
