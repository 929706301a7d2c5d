"""The verdicts of ``fx-explorer bench`` about results, held against PyTorch's rule in a bare
process.

Each family of Hugging Face is built small from its configuration, with random weights and without
dropout, and run by ``bench`` with some backends. In a process that knows nothing of us the same is
run eagerly, in float64 and compiled, and judged by ``torch._dynamo.utils.same``: with its default
tolerance, and with that of PyTorch's Hugging Face benchmarks. A verdict agrees with the rule where
both say that results differ, or neither does. Then ten backends that are wrong in ten ways are
benched, each of which must be found. ``--only faults`` runs those alone.

    python -m benchmarks.bench_verdicts [--device cuda] [--only NAME ...] [--jobs 4] [--out FILE.jsonl]

Results are appended to ``--out``, a line for each contender, and what stands there is not run
again. Several families at once (``--jobs``) say nothing of speed. Needs transformers.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).parents[1]

BACKENDS = ("eager", "aot_eager", "inductor")

HARNESS_TOLERANCE = {"infer": 1e-3, "train": 1e-2}
"""Of the Hugging Face models (benchmarks/dynamo/huggingface.py, ``get_tolerance_and_cosine_flag``).
"""

VOCABULARY, HIDDEN, LAYERS, HEADS = 512, 128, 2, 4
BATCH, LENGTH = 4, 64


@dataclass(frozen=True)
class Family:
    """A model of transformers, small."""

    config: str
    model: str
    dtype: str = "float32"
    inputs: str = "text"
    options: dict[str, Any] = field(default_factory=dict)


TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 2 * HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 2 * LENGTH,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {**TEXT, "num_key_value_heads": 2}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": HIDDEN}
PICTURE = {
    "hidden_size": HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 2 * HIDDEN,
    "image_size": 64,
    "patch_size": 16,
    "num_labels": 10,
}
STAGES = {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 32, 64, 128], "num_labels": 10}
SEQ2SEQ = {
    "vocab_size": VOCABULARY,
    "d_model": HIDDEN,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "encoder_ffn_dim": 2 * HIDDEN,
    "decoder_ffn_dim": 2 * HIDDEN,
    "max_position_embeddings": 2 * LENGTH,
    "use_cache": False,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}

FAMILIES = {
    "llama": Family("LlamaConfig", "LlamaForCausalLM", "bfloat16", options=GROUPED),
    "llama32": Family("LlamaConfig", "LlamaForCausalLM", options=GROUPED),
    "mistral": Family("MistralConfig", "MistralForCausalLM", "float16", options=GROUPED),
    "qwen2": Family("Qwen2Config", "Qwen2ForCausalLM", "bfloat16", options=GROUPED),
    "qwen3": Family(
        "Qwen3Config", "Qwen3ForCausalLM", "bfloat16", options={**GROUPED, "head_dim": 32}
    ),
    "qwen3_moe": Family(
        "Qwen3MoeConfig",
        "Qwen3MoeForCausalLM",
        "bfloat16",
        options={**GROUPED, **EXPERTS, "head_dim": 32},
    ),
    "phi3": Family("Phi3Config", "Phi3ForCausalLM", "bfloat16", options=GROUPED),
    "olmo2": Family("Olmo2Config", "Olmo2ForCausalLM", "bfloat16", options=GROUPED),
    "glm4": Family(
        "Glm4Config", "Glm4ForCausalLM", "bfloat16", options={**GROUPED, "head_dim": 32}
    ),
    "gemma2": Family(
        "Gemma2Config", "Gemma2ForCausalLM", "bfloat16", options={**GROUPED, "head_dim": 32}
    ),
    "gpt2": Family(
        "GPT2Config",
        "GPT2LMHeadModel",
        "float16",
        options={
            "vocab_size": VOCABULARY,
            "n_embd": HIDDEN,
            "n_layer": LAYERS,
            "n_head": HEADS,
            "n_positions": 2 * LENGTH,
            "use_cache": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
        },
    ),
    "gpt_neox": Family("GPTNeoXConfig", "GPTNeoXForCausalLM", "bfloat16", options=TEXT),
    "opt": Family(
        "OPTConfig",
        "OPTForCausalLM",
        options={**TEXT, "ffn_dim": 2 * HIDDEN, "word_embed_proj_dim": HIDDEN},
    ),
    "bert": Family("BertConfig", "BertForMaskedLM", options=TEXT),
    "roberta": Family("RobertaConfig", "RobertaForMaskedLM", "bfloat16", options=TEXT),
    "albert": Family("AlbertConfig", "AlbertForMaskedLM", options={**TEXT, "embedding_size": 64}),
    "electra": Family(
        "ElectraConfig", "ElectraForMaskedLM", options={**TEXT, "embedding_size": 64}
    ),
    "distilbert": Family(
        "DistilBertConfig",
        "DistilBertForMaskedLM",
        options={
            "vocab_size": VOCABULARY,
            "dim": HIDDEN,
            "hidden_dim": 2 * HIDDEN,
            "n_layers": LAYERS,
            "n_heads": HEADS,
            "max_position_embeddings": 2 * LENGTH,
        },
    ),
    "bart": Family("BartConfig", "BartForConditionalGeneration", inputs="seq2seq", options=SEQ2SEQ),
    "pegasus": Family(
        "PegasusConfig", "PegasusForConditionalGeneration", inputs="seq2seq", options=SEQ2SEQ
    ),
    "t5": Family(
        "T5Config",
        "T5ForConditionalGeneration",
        inputs="seq2seq",
        options={
            "vocab_size": VOCABULARY,
            "d_model": HIDDEN,
            "d_kv": 32,
            "d_ff": 2 * HIDDEN,
            "num_layers": LAYERS,
            "num_heads": HEADS,
            "decoder_start_token_id": 0,
            "use_cache": False,
        },
    ),
    "vit": Family("ViTConfig", "ViTForImageClassification", inputs="picture", options=PICTURE),
    "dinov2": Family(
        "Dinov2Config", "Dinov2ForImageClassification", inputs="picture", options=PICTURE
    ),
    "resnet": Family(
        "ResNetConfig",
        "ResNetForImageClassification",
        inputs="picture",
        options={**STAGES, "embedding_size": 16},
    ),
    "convnextv2": Family(
        "ConvNextV2Config", "ConvNextV2ForImageClassification", inputs="picture", options=STAGES
    ),
}


def build_family(name: str) -> nn.Module:
    """Return the model with the same random weights each time, without dropout."""
    if name == "faulty":
        return build_network()
    import transformers

    family = FAMILIES[name]
    torch.manual_seed(0)
    config = getattr(transformers, family.config)(**family.options)
    for attribute in dir(config):
        # As in PyTorch's harness: so that gradients can be compared.
        if "drop" in attribute and isinstance(getattr(config, attribute), float):
            setattr(config, attribute, 0.0)
    model = getattr(transformers, family.model)(config)
    return model.to(getattr(torch, family.dtype)).train()


def family_inputs(name: str) -> dict[str, Any]:
    """Return keyword arguments for ``build_family(name)``."""
    torch.manual_seed(1)
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH))
    if name == "faulty":
        return {"tokens": tokens % 32, "scale": torch.linspace(0.5, 1.5, 64)}
    family = FAMILIES[name]
    if family.inputs == "picture":
        pixels = torch.randn(BATCH, 3, 64, 64).to(getattr(torch, family.dtype))
        return {"pixel_values": pixels, "labels": torch.arange(BATCH) % 10}
    if family.inputs == "seq2seq":
        return {"input_ids": tokens, "decoder_input_ids": tokens.flip(1), "labels": tokens}
    return {"input_ids": tokens, "labels": tokens}


# backends that are wrong


class Network(nn.Module):
    """What the wrong backends compile: it has integers, a buffer and small results, too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 64)
        self.first = nn.Linear(64, 64)
        self.norm = nn.BatchNorm1d(64)
        self.second = nn.Linear(64, 32)

    def forward(self, tokens: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
        hidden = self.embedding(tokens).mean(1) * scale
        logits = self.second(torch.relu(self.norm(self.first(hidden))))
        loss = nn.functional.cross_entropy(logits, tokens[:, 0])
        return {"loss": loss, "logits": logits * 1e-3, "best": logits.argmax(-1)}


def build_network() -> nn.Module:
    torch.manual_seed(0)
    return Network().train()


Compiled = Callable[..., Any]


def _changed(values: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def of(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        return change(value) if is_float else value

    return type(values)(map(of, values)) if isinstance(values, tuple | list) else of(values)


def _backend(
    forward: Callable[[torch.fx.GraphModule], Compiled],
    backward: Callable[[torch.fx.GraphModule], Compiled] | None = None,
) -> Callable[..., Any]:
    """Return a backend whose forward graph is run by ``forward``, and its backward by ``backward``."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compiler(run: Callable[[torch.fx.GraphModule], Compiled]) -> Callable[..., Any]:
        return lambda graph, _: make_boxed_func(run(graph))

    return aot_autograd(fw_compiler=compiler(forward), bw_compiler=compiler(backward or _as_it_is))


def _as_it_is(graph: torch.fx.GraphModule) -> Compiled:
    return graph


def _with_results(change: Callable[[Any], Any]) -> Callable[[torch.fx.GraphModule], Compiled]:
    return lambda graph: lambda *given: change(graph(*given))


def outputs_times_1_001(graph: Any, inputs: Any) -> Any:
    """The forward's results a thousandth too large."""
    scaled = _with_results(lambda results: _changed(results, lambda value: value * 1.001))
    return _backend(scaled)(graph, inputs)


def gradients_times_1_01(graph: Any, inputs: Any) -> Any:
    """Gradients a hundredth too large."""
    scaled = _with_results(lambda results: _changed(results, lambda value: value * 1.01))
    return _backend(_as_it_is, scaled)(graph, inputs)


def one_gradient_lost(graph: Any, inputs: Any) -> Any:
    """The first gradient is 0."""

    def without_first(results: Any) -> Any:
        lost = [None if value is None else value.clone() for value in results]
        next(value for value in lost if value is not None).zero_()
        return type(results)(lost)

    return _backend(_as_it_is, _with_results(without_first))(graph, inputs)


def right_at_first(graph: Any, inputs: Any) -> Any:
    """Whatever it is given, it returns what it returned first."""
    kept: list[Any] = []

    def run(*given: Any) -> Any:
        kept.append(graph(*given)) if not kept else None
        return kept[0]

    return run


def one_number_off(graph: Any, inputs: Any) -> Any:
    """One number of each result is a hundredth of the largest off."""

    def off(value: torch.Tensor) -> torch.Tensor:
        changed = value.clone()
        if changed.numel():
            changed.view(-1)[-1] += value.abs().max() / 100
        return changed

    return lambda *given: _changed(graph(*given), off)


def tail_left_out(graph: Any, inputs: Any) -> Any:
    """The last column of a matrix is not computed, as where a loop ends too soon."""

    def cut(value: torch.Tensor) -> torch.Tensor:
        changed = value.clone()
        if changed.dim() > 1:
            changed[..., -1] = 0
        return changed

    return lambda *given: _changed(graph(*given), cut)


def half_precision_inside(graph: Any, inputs: Any) -> Any:
    """Computes in bfloat16 what is asked for in float32."""

    def narrow(value: torch.Tensor) -> torch.Tensor:
        return value.to(torch.bfloat16).to(value.dtype)

    return lambda *given: _changed(graph(*(_changed(v, narrow) for v in given)), narrow)


def input_written(graph: Any, inputs: Any) -> Any:
    """Writes into one of its inputs."""

    def run(*given: Any) -> Any:
        results = graph(*given)
        floats = [value for value in given if isinstance(value, torch.Tensor)]
        with torch.no_grad():
            next(value for value in floats if value.is_floating_point()).mul_(1.01)
        return results

    return run


def integers_off(graph: Any, inputs: Any) -> Any:
    """Integers are one too large."""

    def off(value: Any) -> Any:
        is_integer = isinstance(value, torch.Tensor) and value.dtype == torch.int64
        return value + 1 if is_integer and value.dim() else value

    return lambda *given: (
        type(results)(map(off, results)) if (results := graph(*given)) else results
    )


def not_a_number(graph: Any, inputs: Any) -> Any:
    """The largest number of each result is NaN."""

    def spoilt(value: torch.Tensor) -> torch.Tensor:
        changed = value.clone()
        if changed.numel():
            changed.view(-1)[int(value.argmax())] = torch.nan
        return changed

    return lambda *given: _changed(graph(*given), spoilt)


def buffers_forgotten(graph: Any, inputs: Any) -> Any:
    """What the graph writes into buffers is undone."""

    def run(*given: Any) -> Any:
        kept = [
            value.detach().clone() if isinstance(value, torch.Tensor) else None for value in given
        ]
        results = graph(*given)
        for value, before in zip(given, kept, strict=True):
            if before is not None and not value.requires_grad:
                value.copy_(before)
        return results

    return run


FAULTS: dict[str, tuple[Callable[..., Any], ...]] = {
    "train": (
        outputs_times_1_001,
        gradients_times_1_01,
        one_gradient_lost,
        one_number_off,
        tail_left_out,
        half_precision_inside,
        input_written,
        integers_off,
        not_a_number,
    ),
    # They keep tensors from call to call, or write to them, which a backward refuses.
    "infer": (outputs_times_1_001, right_at_first, buffers_forgotten),
}


# PyTorch's rule, in a process of its own


def judge_bare(name: str, mode: str, device: str, backends: Sequence[str]) -> None:
    """Print, for each backend, whether PyTorch's rule calls its results equal."""
    from torch._dynamo.utils import same

    model, inputs = build_family(name).to(device), _on(family_inputs(name), device)
    eager = _run(copy.deepcopy(model), inputs, mode)
    try:
        wide = {
            key: value.double() if value.is_floating_point() else value
            for key, value in inputs.items()
        }
        exact = [_as_float64(value) for value in _run(copy.deepcopy(model).double(), wide, mode)]
    except Exception as error:  # noqa: BLE001 - told: then the harness compares by cosine similarity
        print(f"no run in float64: {type(error).__name__}: {error}", file=sys.stderr)
        exact = None
    for backend in backends:
        torch._dynamo.reset()
        compiled_model = copy.deepcopy(model)
        verdicts: dict[str, Any] = {"contender": backend}
        try:
            found = _run(
                compiled_model, inputs, mode, torch.compile(compiled_model, backend=backend)
            )
            for rule, tolerance in (("same", 1e-4), ("harness", HARNESS_TOLERANCE[mode])):
                verdicts[rule] = same(
                    eager,
                    found,
                    exact,
                    equal_nan=True,
                    tol=tolerance,
                    cos_similarity=exact is None,
                    log_error=lambda *told: print(*told, file=sys.stderr),
                )
        except Exception as error:  # noqa: BLE001 - told in the row
            verdicts["failed"] = f"{type(error).__name__}: {error}".partition("\n")[0]
        print(json.dumps(verdicts))


def _run(
    model: nn.Module, inputs: dict[str, Any], mode: str, called: Compiled | None = None
) -> list[torch.Tensor]:
    """Return outputs, gradients and buffers of one call."""
    from torch.utils._pytree import tree_leaves

    torch.manual_seed(0)
    given = {key: value.clone() for key, value in inputs.items()}
    with torch.set_grad_enabled(mode == "train"):
        output = (model if called is None else called)(**given)
    values = list(output.values()) if hasattr(output, "values") else [output]
    results = [value.detach() for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    if mode == "train":
        output["loss"].backward()
        gradients = (parameter.grad for parameter in model.parameters())
        results += [gradient for gradient in gradients if gradient is not None]
    return [*results, *(buffer.clone() for buffer in model.buffers())]


def _as_float64(value: torch.Tensor) -> torch.Tensor:
    return value.to(torch.float64) if value.is_floating_point() else value


def _on(inputs: dict[str, Any], device: str) -> dict[str, Any]:
    return {key: value.to(device) for key, value in inputs.items()}


# bench


async def bench_rows(
    name: str, mode: str, device: str, backends: Sequence[str], budget_s: float
) -> list[dict[str, Any]]:
    """Return what ``fx-explorer bench`` says of each contender."""
    from fx_explorer.instruments.bench.bench_run import Bench
    from fx_explorer.instruments.bench.cells import bench_figures
    from fx_explorer.instruments.bench.plan import BenchPlan, begin_session, end_session
    from fx_explorer.instruments.bench.verdict import difference, verdict
    from fx_explorer.model import CaptureRequest
    from fx_explorer.session import SessionReader, SessionWriter

    request = CaptureRequest(
        target=str(Path(__file__).resolve()),
        session="",
        call=f"build_family({name!r})",
        inputs=f"family_inputs({name!r})",
        train=mode == "train",
        device=device,
        build=True,
    )
    plan = BenchPlan(request, backends=tuple(backends), budget_s=budget_s)
    with tempfile.TemporaryDirectory() as folder:
        session = Path(folder) / "bench.fxs"
        with SessionWriter(session) as writer:
            begin_session(writer, plan)
            await Bench(plan, writer, sys.executable, lambda progress: None).run()
            end_session(writer, was_stopped=False)
        with SessionReader(session) as reader:
            figures = bench_figures(reader)
    assert figures is not None
    return [
        {
            "contender": cell.cell.contender,
            "state": cell.cell.state,
            "message": cell.cell.message,
            "bench": cell.cell.agreement,
            "difference": difference(cell),
            "call_s": cell.call_s,
            "rounds": cell.rounds,
            "speed_up": [cell.speed_up.low, cell.speed_up.middle, cell.speed_up.high]
            if cell.speed_up
            else None,
            "first_call_s": cell.cell.first_call_s,
            "device": cell.cell.device,
            "torch": cell.cell.torch,
            "verdict": verdict(figures),
        }
        for cell in figures.cells
    ]


def bare_rows(
    name: str, mode: str, device: str, backends: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Return contender → what PyTorch's rule says of it."""
    command = [sys.executable, "-m", "benchmarks.bench_verdicts", "--bare", name, "--mode", mode]
    command += ["--device", device, "--backends", ",".join(backends)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    if not rows:
        print(ended.stderr[-2000:], file=sys.stderr)
    return {row["contender"]: {**row, "told": ended.stderr[-1500:]} for row in rows}


async def compare_family(name: str, mode: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each contender of one family: bench's verdict, and PyTorch's."""
    began = time.monotonic()
    bare = await asyncio.to_thread(bare_rows, name, mode, options.device, options.backends)
    rows = await bench_rows(name, mode, options.device, options.backends, options.budget)
    for row in rows:
        rule = bare.get(row["contender"], {})
        row |= {
            "family": name,
            "mode": mode,
            **{key: rule.get(key) for key in ("same", "harness", "failed")},
        }
        row["dtype"] = FAMILIES[name].dtype
        row["took_s"] = round(time.monotonic() - began, 1)
        if rule:
            row["agrees"] = (row["bench"] != "differs") == bool(
                rule.get("same") or rule.get("harness")
            )
            row["told"] = "" if row["agrees"] else rule["told"]
    return rows


async def find_faults(mode: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return a row for each wrong backend: whether bench finds it."""
    file = Path(__file__).resolve()
    faults = [fault.__name__ for fault in FAULTS[mode]]
    backends = ["aot_eager", *(f"{file}:{name}" for name in faults)]
    rows = await bench_rows("faulty", mode, options.device, backends, options.budget)
    for row in rows:
        name = row["contender"].rpartition(":")[2]
        is_fault = name in faults
        row |= {"family": "faults", "mode": mode, "contender": name, "dtype": "float32"}
        if row["bench"]:
            row["agrees"] = (row["bench"] == "differs") == is_fault
    return rows


def _jobs(options: argparse.Namespace, done: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for name in options.only or [*FAMILIES, "faults"]:
        for mode in options.modes:
            if (name, mode) not in done:
                yield name, mode


async def _run_all(options: argparse.Namespace) -> None:
    done = set()
    if options.out and options.out.exists():
        for line in options.out.read_text().splitlines():
            row = json.loads(line)
            done.add((row["family"], row["mode"]))
    turn = asyncio.Semaphore(options.jobs)

    async def run(name: str, mode: str) -> None:
        async with turn:
            try:
                if name == "faults":
                    rows = await find_faults(mode, options)
                else:
                    rows = await compare_family(name, mode, options)
            except Exception as error:  # noqa: BLE001 - told: the other families go on
                print(f"{name:<11} {mode:<6} {type(error).__name__}: {error}", flush=True)
                return
        for row in rows:
            _tell(row)
        if options.out:
            with options.out.open("a", encoding="utf-8") as out:
                out.writelines(json.dumps(row) + "\n" for row in rows)

    await asyncio.gather(*(run(*job) for job in _jobs(options, done)))


def _tell(row: dict[str, Any]) -> None:
    speed = " to ".join(f"{row['speed_up'][end]:.2f}" for end in (0, 2)) if row["speed_up"] else ""
    agrees = {True: "agrees", False: "DISAGREES", None: ""}[row.get("agrees")]
    print(
        f"{row['family']:<11} {row['dtype']:<9} {row['mode']:<6} {row['contender']:<22} "
        f"{row['bench'] or row['state']:<13} same={row.get('same')!s:<6} "
        f"harness={row.get('harness')!s:<6} {agrees:<10} {speed}",
        flush=True,
    )
    if row.get("agrees") is False or row["bench"] in ("differs", "not_compared") or row["message"]:
        print(f"    {row['message']}{row['difference']} {row.get('failed') or ''}", flush=True)


def _words(text: str) -> list[str]:
    return text.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", nargs="*", help=f"{', '.join(FAMILIES)}, faults")
    parser.add_argument("--modes", type=_words, default=["infer", "train"])
    parser.add_argument("--backends", type=_words, default=list(BACKENDS))
    parser.add_argument("--budget", type=float, default=20.0, help="seconds of a bench")
    parser.add_argument("--jobs", type=int, default=1, help="families at once")
    parser.add_argument("--out", type=Path, help="a file of JSON lines to append to")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    parser.add_argument("--mode", default="infer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        judge_bare(options.bare, options.mode, options.device, options.backends)
    else:
        asyncio.run(_run_all(options))


if __name__ == "__main__":
    main()
