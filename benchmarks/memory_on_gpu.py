"""Predicted and measured peaks of training steps, over families of Hugging Face's transformers.

For each family: what ``fx-explorer memory --device DEVICE`` predicts of a step, and the same step
in a process without fx-explorer (``BY_HAND`` of memory_by_hand.py). Compared is what a step takes
beyond what is there before it: ``torch.cuda.max_memory_allocated`` minus ``memory_allocated``, so
that workspaces that cuBLAS keeps for good are in neither. One JSON line a family is printed, and
appended to a file.

    python -m benchmarks.memory_on_gpu [FAMILY ...] [--device cuda] [--size large] [--json FILE]

A family that the file has a line of is left out, so that a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT
from benchmarks.memory_by_hand import BY_HAND, Failed


@dataclass(frozen=True)
class Size:
    """How large a model is made, and how much it is given."""

    hidden: int
    layers: int
    vocabulary: int
    batch: int
    tokens: int
    pixels: int


SIZES = {
    "small": Size(hidden=64, layers=2, vocabulary=512, batch=4, tokens=64, pixels=32),
    "large": Size(hidden=512, layers=4, vocabulary=8192, batch=16, tokens=256, pixels=224),
}

HEADS = 4

Named = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """A family of models: its class in transformers, its configuration, and what a step is given."""

    model: str
    config: Callable[[Size], Named]
    inputs: Callable[[Size], Named]


def decoder(size: Size) -> Named:
    """Return the names that most language models of one stack have."""
    return {
        "vocab_size": size.vocabulary,
        "hidden_size": size.hidden,
        "intermediate_size": 2 * size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": HEADS,
        "max_position_embeddings": 2 * size.tokens,
        "use_cache": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def grouped(size: Size) -> Named:
    """Return a decoder whose queries share keys and values."""
    return {**decoder(size), "num_key_value_heads": HEADS // 2, "head_dim": size.hidden // HEADS}


def encoder(size: Size) -> Named:
    return {key: value for key, value in decoder(size).items() if key != "use_cache"}


def gpt2(size: Size) -> Named:
    return {
        "vocab_size": size.vocabulary,
        "n_embd": size.hidden,
        "n_layer": size.layers,
        "n_head": HEADS,
        "n_positions": 2 * size.tokens,
        "use_cache": False,
    }


def opt(size: Size) -> Named:
    named = {**decoder(size), "ffn_dim": 2 * size.hidden, "word_embed_proj_dim": size.hidden}
    del named["intermediate_size"]
    return {**named, "layerdrop": 0.0}


def distilbert(size: Size) -> Named:
    return {
        "vocab_size": size.vocabulary,
        "dim": size.hidden,
        "hidden_dim": 2 * size.hidden,
        "n_layers": size.layers,
        "n_heads": HEADS,
        "max_position_embeddings": 2 * size.tokens,
    }


def t5(size: Size) -> Named:
    return {
        "vocab_size": size.vocabulary,
        "d_model": size.hidden,
        "d_kv": size.hidden // HEADS,
        "d_ff": 2 * size.hidden,
        "num_layers": size.layers,
        "num_heads": HEADS,
        "use_cache": False,
        "decoder_start_token_id": 0,
    }


def bart(size: Size) -> Named:
    """Return what Bart and those that were made of it have: an encoder and a decoder."""
    return {
        "vocab_size": size.vocabulary,
        "d_model": size.hidden,
        "encoder_layers": size.layers,
        "decoder_layers": size.layers,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": 2 * size.hidden,
        "decoder_ffn_dim": 2 * size.hidden,
        "max_position_embeddings": 2 * size.tokens,
        "use_cache": False,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": 2,
    }


def dropping_layers(size: Size) -> Named:
    """Return a Bart with layerdrop, which breaks the graph at each layer. It is so small that no
    layer is ever left out.
    """
    return {**bart(size), "encoder_layerdrop": 1e-9, "decoder_layerdrop": 1e-9}


def whisper(size: Size) -> Named:
    own = {"max_source_positions": size.tokens, "max_target_positions": size.tokens}
    named = dropping_layers(size)
    del named["max_position_embeddings"]
    return {**named, **own, "num_mel_bins": 80}


def vision(size: Size) -> Named:
    return {
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * size.hidden,
        "image_size": size.pixels,
        "patch_size": size.pixels // 16,
        "num_labels": 8,
    }


def stages(size: Size) -> Named:
    """Return a convolutional network: it has four widths in place of one."""
    return {
        "hidden_sizes": [size.hidden // 4, size.hidden // 2, size.hidden, size.hidden],
        "depths": [1, 1, 1, 1],
        "num_labels": 8,
    }


def resnet(size: Size) -> Named:
    return {**stages(size), "embedding_size": size.hidden // 4}


def experts(size: Size) -> Named:
    return {
        **grouped(size),
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": size.hidden,
    }


def words(size: Size) -> Named:
    tokens = _tokens(size)
    return {"input_ids": tokens, "labels": tokens}


def classified(size: Size) -> Named:
    return {"input_ids": _tokens(size), "labels": _classes(size)}


def sound(size: Size) -> Named:
    import torch

    return {
        "input_features": torch.randn(size.batch, 80, 2 * size.tokens),
        "labels": _tokens(size),
    }


def images(size: Size) -> Named:
    import torch

    pixels = torch.randn(size.batch, 3, size.pixels, size.pixels)
    return {"pixel_values": pixels, "labels": _classes(size)}


def _tokens(size: Size) -> Any:
    import torch

    return torch.randint(3, size.vocabulary, (size.batch, size.tokens))


def _classes(size: Size) -> Any:
    import torch

    return torch.arange(size.batch) % 2


FAMILIES: dict[str, Family] = {
    "llama": Family("LlamaForCausalLM", grouped, words),
    "qwen2": Family("Qwen2ForCausalLM", grouped, words),
    "mistral": Family("MistralForCausalLM", grouped, words),
    "gemma2": Family("Gemma2ForCausalLM", grouped, words),
    "phi3": Family("Phi3ForCausalLM", grouped, words),
    "olmo2": Family("Olmo2ForCausalLM", grouped, words),
    "gpt2": Family("GPT2LMHeadModel", gpt2, words),
    "gpt_neox": Family("GPTNeoXForCausalLM", decoder, words),
    "opt": Family("OPTForCausalLM", opt, words),
    "bert": Family("BertForSequenceClassification", encoder, classified),
    "roberta": Family("RobertaForMaskedLM", encoder, words),
    "distilbert": Family("DistilBertForMaskedLM", distilbert, words),
    "electra": Family("ElectraForMaskedLM", encoder, words),
    "t5": Family("T5ForConditionalGeneration", t5, words),
    "bart": Family("BartForConditionalGeneration", bart, words),
    "pegasus": Family("PegasusForConditionalGeneration", dropping_layers, words),
    "mbart": Family("MBartForConditionalGeneration", dropping_layers, words),
    "marian": Family("MarianMTModel", dropping_layers, words),
    "whisper": Family("WhisperForConditionalGeneration", whisper, sound),
    "vit": Family("ViTForImageClassification", vision, images),
    "dinov2": Family("Dinov2ForImageClassification", vision, images),
    "resnet": Family("ResNetForImageClassification", resnet, images),
    "convnext": Family("ConvNextForImageClassification", stages, images),
    "qwen3_moe": Family("Qwen3MoeForCausalLM", experts, words),
}
"""Name on the command line → family. From ``t5`` to ``whisper`` they have an encoder and a decoder.
"""


def build(name: str, size: str) -> Any:
    """Return the model of a family, in training mode, with the same random weights each time."""
    import torch
    import transformers

    family = FAMILIES[name]
    model_class = getattr(transformers, family.model)
    torch.manual_seed(0)
    return model_class(model_class.config_class(**family.config(SIZES[size]))).train()


def inputs(name: str, size: str) -> Named:
    """Return what a family's model is called with, labels among it."""
    import torch

    torch.manual_seed(1)
    return FAMILIES[name].inputs(SIZES[size])


BUILT_BY_HAND = (
    BY_HAND.replace(
        "from benchmarks.models import batched, build",
        "from benchmarks.memory_on_gpu import build, inputs",
    )
    .replace(
        "name, batch, device = sys.argv[1], int(sys.argv[2]), sys.argv[3]\n",
        "name, size, device = sys.argv[1:]\n",
    )
    .replace(
        "model, example = build(name).to(device), batched(name, batch)",
        "model, example = build(name, size).to(device), inputs(name, size)",
    )
)


def predicted(name: str, size: str, device: str, folder: Path, limit_s: float) -> Named:
    """Return the answer of ``fx-explorer memory`` about a step."""
    command = [sys.executable, "-m", "fx_explorer", "memory", "benchmarks/memory_on_gpu.py"]
    command += ["--format", "json", "--train", "--device", device]
    command += ["--call", f"build({name!r}, {size!r})", "--inputs", f"inputs({name!r}, {size!r})"]
    return dict(json.loads(output_of(command, folder, limit_s)))


def measured(name: str, size: str, device: str, folder: Path, limit_s: float) -> Named:
    """Return what torch counts of the same step, in a process without fx-explorer."""
    command = [sys.executable, "-c", BUILT_BY_HAND, name, size, device]
    return dict(json.loads(output_of(command, folder, limit_s).splitlines()[-1]))


def output_of(command: Sequence[str], folder: Path, limit_s: float) -> str:
    """Return what a process prints. Raises Failed, and subprocess.TimeoutExpired."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONPATH": _path()}
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
    if ended.returncode:
        raise Failed(f"ended with {ended.returncode}: {ended.stderr.strip()[-1500:]}")
    return ended.stdout


def _path() -> str:
    return os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))


def row(name: str, size: str, device: str, limit_s: float) -> Named:
    """Return the figures of a family, in bytes; ``ratio`` is predicted ÷ measured, beyond what is
    there before the step.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = predicted(name, size, device, Path(folder), limit_s)
            hand = measured(name, size, device, Path(folder), limit_s)
        except (Failed, subprocess.TimeoutExpired, ValueError) as error:
            return {"family": name, "size": size, "failed": str(error)[-1500:]}
    before = hand["known"] + hand["others"]
    own, torchs = told["peak_bytes"] - told["begin_bytes"], hand["peak"] - before
    return {
        "family": name,
        "size": size,
        "predicted": own,
        "measured": torchs,
        "ratio": round(own / torchs, 3),
        "begin_predicted": told["begin_bytes"],
        "begin_measured": hand["known"],
        "others": hand["others"],
        "saved_predicted": told["saved_bytes"],
        "saved_measured": hand["computed"],
        "saved_between": told["saved_between_bytes"],
        "calls": told["calls"],
        "peak_in": told["peak_in"],
        "workspaces": sorted(map(_workspace, told["workspaces"]))[-5:],
        "answer": told["verdict"][0],
        "device": hand["device"],
        "torch": hand["torch"],
        "seconds": round(time.monotonic() - began),
    }


def _workspace(told: Named) -> tuple[int, int, str]:
    """Return what a library call takes as the GPU told, -1 where it was not asked, and what it is
    bounded by without one.
    """
    known = told["bytes"]
    return (-1 if known is None else known, told["most_bytes"], told["kernel"])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY", help=f"default: {' '.join(FAMILIES)}"
    )
    parser.add_argument("--device", default="cuda", help="cuda (default) or cpu")
    parser.add_argument("--size", choices=sorted(SIZES), default="large")
    parser.add_argument(
        "--json", type=Path, help="append a line a family here; leave out what it has"
    )
    parser.add_argument("--limit", type=float, default=240.0, metavar="S", help="for each process")
    arguments = parser.parse_args()
    done = _families_in(arguments.json)
    rows = []
    for name in arguments.families or FAMILIES:
        if name in done:
            continue
        rows.append(row(name, arguments.size, arguments.device, arguments.limit))
        line = json.dumps(rows[-1])
        print(line, flush=True)
        if arguments.json:
            with arguments.json.open("a") as file:
                file.write(line + "\n")
    ratios = [found["ratio"] for found in rows if "ratio" in found]
    near = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    print(
        f"within 10 %: {near} of {len(ratios)}; failed: {len(rows) - len(ratios)}", file=sys.stderr
    )
    return int(near < len(rows))


def _families_in(file: Path | None) -> set[str]:
    if file is None or not file.exists():
        return set()
    lines = map(json.loads, file.read_text().splitlines())
    return {line["family"] for line in lines if "ratio" in line}


if __name__ == "__main__":
    raise SystemExit(main())
