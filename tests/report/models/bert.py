"""This target is a small BERT that classifies, trained for one step on its own loss."""

import torch
from transformers import BertConfig, BertForSequenceClassification


def get_model():
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=128,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=3,
    )
    return BertForSequenceClassification(config)


def example_inputs():
    ids = torch.arange(32).reshape(2, 16)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "labels": torch.tensor([0, 2]),
    }
