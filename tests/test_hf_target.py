"""These tests check ``hf:`` targets: what is written for them runs, and nonsense is refused."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from fx_explorer.command_line.hf_target import file_of
from fx_explorer.errors import TargetError, UsageError
from tests.exhaustive import in_exhaustive_runs

SMALL = "hidden_size=32&num_hidden_layers=1&num_attention_heads=2&intermediate_size=64"


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("target", "model", "inputs"),
    [
        (
            f"hf:LlamaConfig?{SMALL}&num_key_value_heads=2&vocab_size=50&batch=3&sequence=5",
            "LlamaForCausalLM",
            {"input_ids": (3, 5), "attention_mask": (3, 5), "labels": (3, 5)},
        ),
        (
            f"hf:ViTConfig?{SMALL}&image_size=16&patch_size=8",
            "ViTForImageClassification",
            {"pixel_values": (2, 3, 16, 16)},
        ),
        (
            "hf:T5Config?d_model=16&d_ff=16&num_layers=1&num_heads=2&d_kv=8&vocab_size=50",
            "T5ForConditionalGeneration",
            {"input_ids": (2, 16), "attention_mask": (2, 16), "labels": (2, 16)},
        ),
        (
            "hf:WhisperConfig?d_model=16&encoder_layers=1&decoder_layers=1&vocab_size=50"
            "&encoder_attention_heads=2&decoder_attention_heads=2&max_source_positions=20"
            "&pad_token_id=0&bos_token_id=1&eos_token_id=2&decoder_start_token_id=1",
            "WhisperForConditionalGeneration",
            {"input_features": (2, 80, 40), "labels": (2, 16)},
        ),
    ],
)
def test_the_file_makes_the_model_and_inputs_that_it_takes(
    target: str, model: str, inputs: dict[str, tuple[int, ...]]
) -> None:
    made = runpy.run_path(file_of(target))
    assert type(made["model"]).__name__ == model
    assert {name: tuple(value.shape) for name, value in made["example_inputs"].items()} == inputs
    assert made["model"](**made["example_inputs"]).logits.isfinite().all()


@in_exhaustive_runs
def test_a_model_of_images_and_texts_gets_both() -> None:
    made = runpy.run_path(file_of("hf:CLIPConfig?sequence=8"))
    assert type(made["model"]).__name__ == "CLIPModel"
    assert made["model"](**made["example_inputs"]).logits_per_image.shape == (2, 2)


def test_the_same_target_is_the_same_file() -> None:
    assert file_of("hf:GPT2Config?n_layer=1") == file_of("hf:GPT2Config?n_layer=1")
    assert file_of("hf:GPT2Config?n_layer=1") != file_of("hf:GPT2Config?n_layer=2")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("hf:LlamaConfig?hiden_size=3", "LlamaConfig has no hiden_size"),
        ("hf:NoSuchConfig", "has no NoSuchConfig"),
        ("hf:VitConfig", "has no VitConfig, but ViTConfig"),
    ],
)
def test_what_transformers_does_not_have_is_said_by_the_file(target: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        runpy.run_path(file_of(target))


@pytest.mark.parametrize(
    "target",
    [
        "hf:",
        "hf:Foo",
        "hf:os.system('true')Config",
        'hf:LlamaConfig"""?a=1',
        "hf:LlamaConfig?a",
        "hf:LlamaConfig?a b=1",
        "hf:LlamaConfig?batch=none",
        "hf:LlamaConfig?batch=0",
    ],
)
def test_what_is_no_configuration_is_refused(target: str) -> None:
    with pytest.raises(UsageError, match="hf:"):
        file_of(target)


def test_values_are_texts_and_numbers_and_no_code() -> None:
    made = file_of("hf:LlamaConfig?hidden_act=__import__('os').abort()&rope_theta=1e6")
    text = Path(made).read_text()
    assert "'hidden_act': \"__import__('os').abort()\", 'rope_theta': 1000000.0" in text
    compile(text, made, "exec")


def test_a_state_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(TargetError, match="cannot be written"):
        file_of("hf:LlamaConfig")
