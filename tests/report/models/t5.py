"""This target is a small T5 with encoder and decoder, trained for one step on its own loss."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def get_model():
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=128,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(config)


def example_inputs():
    ids = torch.arange(32).reshape(2, 16)
    return {"input_ids": ids, "labels": ids[:, :8].contiguous()}
