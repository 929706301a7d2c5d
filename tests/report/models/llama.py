"""This target is a small Llama, trained for one step on its own loss."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def get_model():
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=128,
        max_position_embeddings=64,
    )
    return LlamaForCausalLM(config)


def example_inputs():
    ids = torch.arange(32).reshape(2, 16)
    return {"input_ids": ids, "labels": ids}
