"""This target is a small GPT-2, trained for one step on its own loss."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def get_model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=128, n_positions=64, n_embd=32, n_layer=2, n_head=4)
    )


def example_inputs():
    ids = torch.arange(32).reshape(2, 16)
    return {"input_ids": ids, "labels": ids}
