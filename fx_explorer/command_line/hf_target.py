"""``hf:LlamaConfig?hidden_size=64`` as a target: a model of Hugging Face transformers with random
weights, from its configuration alone. It becomes a file of fx-explorer's, which is the target: what
is compiled can be read there, copied and changed.
"""

from __future__ import annotations

import ast
import hashlib
import keyword
from urllib.parse import parse_qsl

from fx_explorer.errors import TargetError, UsageError
from fx_explorer.folders import state_folder

PREFIX = "hf:"

OF_INPUTS = ("batch", "sequence")
"""Names that say how large the inputs are, and are no field of a configuration."""

_TEMPLATE = '''\
"""{spec}: a model of transformers with random weights, and inputs for it. fx-explorer wrote this
file; copy it to change it.
"""

import torch
import transformers

BATCH, SEQUENCE = {batch}, {sequence}

KINDS = (
    "AutoModelForSpeechSeq2Seq", "AutoModelForSeq2SeqLM", "AutoModelForMaskedLM",
    "AutoModelForCausalLM", "AutoModelForImageClassification", "AutoModelForCTC", "AutoModel",
)


def make_config():
    fields = {fields}
    if not hasattr(transformers, "{name}"):
        near = [name for name in dir(transformers) if name.lower() == "{name}".lower()]
        advice = f", but {{near[0]}}" if near else ""
        raise TypeError(f"transformers {{transformers.__version__}} has no {name}{{advice}}")
    default = transformers.{name}()
    unknown = [field for field in fields if not hasattr(default, field)]
    if unknown:
        raise TypeError(f"{name} has no {{', '.join(unknown)}}")
    config = transformers.{name}(**fields)
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0  # for labels
    return config


def make_model(config):
    for kind in KINDS:
        if kind == "AutoModelForImageClassification" and hasattr(config, "text_config"):
            continue  # of images and texts: the whole model
        factory = getattr(transformers, kind, None)
        if factory is not None and type(config) in factory._model_mapping.keys():
            return factory.from_config(config)
    raise TypeError("transformers has no model for {name}")


def make_images(model):
    config = getattr(model.config, "vision_config", model.config)
    side = getattr(config, "image_size", None)
    if side is None:
        raise TypeError("the size of the images is not known here: copy this file and add it")
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return torch.randn(BATCH, config.num_channels, height, width)


def make_inputs(model):
    name = model.main_input_name
    if name == "input_ids":
        config = model.config.get_text_config()
        tokens = torch.randint(config.vocab_size, (BATCH, SEQUENCE))
        inputs = {{"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}}
        if hasattr(model, "lm_head") or hasattr(model, "cls") or model.get_output_embeddings():
            inputs["labels"] = tokens
        if hasattr(model.config, "vision_config") and not hasattr(model.config, "image_token_id"):
            inputs["pixel_values"] = make_images(model)  # beside the text, not as tokens of it
        return inputs
    if name == "pixel_values":
        return {{name: make_images(model)}}
    if name in ("input_values", "input_features"):
        sizes = (BATCH, SEQUENCE * 400)
        if name == "input_features":
            sizes = (BATCH, model.config.num_mel_bins, 2 * model.config.max_source_positions)
        inputs = {{name: torch.randn(*sizes)}}
        if model.config.is_encoder_decoder:
            inputs["labels"] = torch.randint(model.config.vocab_size, (BATCH, SEQUENCE))
        return inputs
    raise TypeError(f"inputs named {{name}} are not known here: copy this file and add them")


torch.manual_seed(0)
model = make_model(make_config())
example_inputs = make_inputs(model)
'''


def is_hf_target(target: str) -> bool:
    return target.startswith(PREFIX)


def file_of(target: str) -> str:
    """Write the file for a target, and return it as a target. Raises UsageError for what is no
    configuration, and TargetError where no file can be written.
    """
    name, fields, sizes = _parts(target)
    text = _TEMPLATE.format(spec=_in_docstring(target), name=name, fields=repr(fields), **sizes)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    path = state_folder() / "hf" / f"{name}_{digest}.py"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise TargetError(
            f"{target}: its file cannot be written ({path}: {error.strerror})"
        ) from error
    return str(path)


def _parts(target: str) -> tuple[str, dict[str, object], dict[str, int]]:
    """Return the name of the configuration, its fields, and the sizes of the inputs."""
    name, _, query = target.removeprefix(PREFIX).partition("?")
    if not name.isidentifier() or not name.endswith("Config"):
        raise UsageError(
            f"{target}: give a configuration of transformers by name, and its fields: "
            "hf:LlamaConfig?hidden_size=64&num_hidden_layers=2"
        )
    fields: dict[str, object] = {}
    sizes = {"batch": 2, "sequence": 16}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise UsageError(f"{target}: write fields as name=value&name=value") from error
    for field, text in pairs:
        if not field.isidentifier() or keyword.iskeyword(field):
            raise UsageError(f"{target}: {field!r} is not a valid field name")
        if field in OF_INPUTS:
            sizes[field] = _size(target, field, text)
        else:
            fields[field] = _value(text)
    return name, fields, sizes


def _size(target: str, field: str, text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise UsageError(f"{target}: {field}={text} is no size")
    return int(text)


def _value(text: str) -> object:
    """Return a value as Python writes it, else the text itself: ``64``, ``False``, ``gelu``."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {"true": True, "false": False, "null": None}.get(text, text)


def _in_docstring(target: str) -> str:
    return "".join(letter for letter in target if letter.isprintable() and letter not in '"\\')
