"""Models of Hugging Face transformers, small and with random weights, each as one training step.

Every model computes its own loss from labels, so that nothing outside of the compiled call takes
part in the backward. An entry of FAMILIES builds a model and its inputs; ``training_step`` compiles
it, and each call of what it returns is a forward and a backward.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

ModelAndInputs = tuple[torch.nn.Module, dict[str, torch.Tensor]]
VOCABULARY = 96
_SMALL: dict[str, object] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
}
_ATTENTION_OF_FEW_HEADS: dict[str, object] = {
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}


def _tokens(rows: int = 2, length: int = 16) -> torch.Tensor:
    return torch.arange(rows * length).reshape(rows, length) % VOCABULARY


def _language_model(config: str, model: str, **changed: object) -> Callable[[], ModelAndInputs]:
    """A model that predicts the next token."""

    def build() -> ModelAndInputs:
        import transformers

        settings = {**_SMALL, **_ATTENTION_OF_FEW_HEADS, "use_cache": False, **changed}
        built = getattr(transformers, model)(getattr(transformers, config)(**settings))
        return _prepared(built, input_ids=_tokens(), labels=_tokens())

    return build


def _encoder(config: str, model: str, **changed: object) -> Callable[[], ModelAndInputs]:
    """A model that gives each sequence a class."""

    def build() -> ModelAndInputs:
        import transformers

        settings = {**_SMALL, "num_labels": 3, **changed}
        built = getattr(transformers, model)(getattr(transformers, config)(**settings))
        return _prepared(built, input_ids=_tokens(), labels=torch.tensor([0, 2]))

    return build


def _vision(config: str, model: str, **changed: object) -> Callable[[], ModelAndInputs]:
    """A model that gives each picture of 32 by 32 a class."""

    def build() -> ModelAndInputs:
        import transformers

        built = getattr(transformers, model)(getattr(transformers, config)(num_labels=3, **changed))
        pictures = torch.linspace(-1, 1, 2 * 3 * 32 * 32).reshape(2, 3, 32, 32)
        return _prepared(built, pixel_values=pictures, labels=torch.tensor([0, 2]))

    return build


def _prepared(model: torch.nn.Module, **inputs: torch.Tensor) -> ModelAndInputs:
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model, inputs


def training_step(name: str) -> Callable[[], None]:
    """Return a function that trains the compiled model of this name for one step."""
    model, inputs = FAMILIES[name]()
    compiled = torch.compile(model)

    def step() -> None:
        compiled(**inputs).loss.backward()

    return step


_VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}

FAMILIES: dict[str, Callable[[], ModelAndInputs]] = {
    "llama": _language_model("LlamaConfig", "LlamaForCausalLM"),
    "mistral": _language_model("MistralConfig", "MistralForCausalLM", sliding_window=8),
    "qwen2": _language_model("Qwen2Config", "Qwen2ForCausalLM"),
    "qwen3": _language_model("Qwen3Config", "Qwen3ForCausalLM", head_dim=8),
    "gemma": _language_model("GemmaConfig", "GemmaForCausalLM", head_dim=8),
    "gemma2": _language_model("Gemma2Config", "Gemma2ForCausalLM", head_dim=8, sliding_window=8),
    "phi3": _language_model("Phi3Config", "Phi3ForCausalLM", pad_token_id=0),
    "olmo2": _language_model("Olmo2Config", "Olmo2ForCausalLM"),
    "granite": _language_model("GraniteConfig", "GraniteForCausalLM"),
    "stablelm": _language_model("StableLmConfig", "StableLmForCausalLM"),
    "cohere": _language_model("CohereConfig", "CohereForCausalLM"),
    "gpt2": _language_model("GPT2Config", "GPT2LMHeadModel", **_GPT2),
    "gpt_neox": _language_model("GPTNeoXConfig", "GPTNeoXForCausalLM"),
    "opt": _language_model("OPTConfig", "OPTForCausalLM", ffn_dim=64, word_embed_proj_dim=32),
    "mixtral": _language_model(
        "MixtralConfig", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2
    ),
    "bert": _encoder("BertConfig", "BertForSequenceClassification"),
    "roberta": _encoder("RobertaConfig", "RobertaForSequenceClassification"),
    "electra": _encoder("ElectraConfig", "ElectraForSequenceClassification"),
    "distilbert": _encoder(
        "DistilBertConfig", "DistilBertForSequenceClassification", dim=32, n_heads=4, n_layers=2
    ),
    "t5": _language_model("T5Config", "T5ForConditionalGeneration", **_T5),
    "bart": _language_model("BartConfig", "BartForConditionalGeneration", **_BART),
    "vit": _vision("ViTConfig", "ViTForImageClassification", **_VISION),
    "dinov2": _vision("Dinov2Config", "Dinov2ForImageClassification", **_VISION),
    "convnextv2": _vision(
        "ConvNextV2Config",
        "ConvNextV2ForImageClassification",
        hidden_sizes=[16, 32],
        depths=[1, 1],
        num_stages=2,
        image_size=32,
    ),
    "resnet": _vision(
        "ResNetConfig",
        "ResNetForImageClassification",
        embedding_size=16,
        hidden_sizes=[16, 32],
        depths=[1, 1],
        layer_type="basic",
    ),
}
