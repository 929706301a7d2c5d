"""This program is a GPT-2 with one layer, with dropout."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def get_model():
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=128, n_positions=64, n_embd=32, n_layer=1, n_head=4)
    )


def example_inputs():
    return {"input_ids": torch.arange(32).reshape(2, 16)}
