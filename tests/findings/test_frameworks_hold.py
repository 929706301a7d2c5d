"""These tests check that what a framework offers does what the finding says: it is applied to a
bare program, and torch's compilations are counted.
"""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from tests.exhaustive import in_exhaustive_runs


def compilations(*, max_length: bool, padded: bool) -> int:
    """Count the compilations of ``generate`` with a static cache and prompts of three lengths."""
    transformers = pytest.importorskip("transformers")  # takes each process of the tests 4 s
    torch.manual_seed(0)
    configuration = transformers.LlamaConfig(
        vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    llama = transformers.LlamaForCausalLM(configuration).eval()
    llama.generation_config.pad_token_id = 0
    torch._dynamo.reset()
    counter = CompileCounter()
    llama.forward = torch.compile(llama.forward, backend=counter)
    length = {"max_length": 24} if max_length else {"max_new_tokens": 6}
    for prompt in (7, 11, 5):
        ids = torch.randint(1, 128, (1, prompt))
        if padded:
            ids = torch.nn.functional.pad(ids, (12 - prompt, 0))
        mask = (ids != 0).long()
        llama.generate(
            ids, attention_mask=mask, do_sample=False, cache_implementation="static", **length
        )
    return int(counter.frame_count)


@in_exhaustive_runs
def test_one_max_length_and_one_prompt_length_keep_generate_from_recompiling() -> None:
    plain = compilations(max_length=False, padded=False)
    one_length = compilations(max_length=True, padded=False)
    both = compilations(max_length=True, padded=True)
    assert plain > one_length > both
    assert both == 2  # the prompt, and each further token
