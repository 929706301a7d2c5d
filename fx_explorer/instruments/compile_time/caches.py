"""This module reads the look-ups in torch's caches and their results, why caches were bypassed, and
whether a warm start found code in them. For two runs of a program it finds the first part of the
cache key that differs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.instruments.compile_time.timing import STAGE_IN_WORDS, stage_times
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts import bounded
from fx_explorer.torch_texts.cache_record import (
    Cache,
    CacheRecord,
    Outcome,
    is_cache_record,
    parse_cache_record,
)

CACHE_NAMES = {"aotautograd": "AOTAutograd's cache", "fx_graph": "Inductor's FX graph cache"}

MOST_READ = 2_000
"""Maximum number of records that are read; each can be 100 KB."""


@dataclass(frozen=True, slots=True)
class CacheAnswer:
    """One cache record of torch, with the compilation that looked it up."""

    compilation: model.Compilation
    record: CacheRecord


def cache_answers(reader: SessionReader, *outcomes: Outcome) -> list[CacheAnswer]:
    """Return torch's cache records in the order they were written; with ``outcomes`` only those
    with one of these outcomes.
    """
    titles = {
        row.id: row.title.partition(" · ")[0] for row in reader.rows(model.Artifact, kind="listing")
    }
    wanted = [
        one for one, title in titles.items() if is_cache_record(title) and _is_of(title, outcomes)
    ]
    compilations = {row.id: row for row in reader.rows(model.Compilation)}
    rows = sorted(reader.by_ids(model.Artifact, wanted[:MOST_READ]), key=lambda row: row.id)
    found = []
    for row, text in reader.texts_of(rows):
        record = parse_cache_record(titles[row.id], text)
        if record is not None and row.compilation in compilations:
            found.append(CacheAnswer(compilations[row.compilation], record))
    return found


def _is_of(title: str, outcomes: tuple[Outcome, ...]) -> bool:
    return not outcomes or any(title.endswith(f"_{outcome}") for outcome in outcomes)


_REASONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (
            r"Unsupported call_(?:function|method) (?:target|method) (?P<what>\S+?)[.:,]?(?: |$)",
            lambda found: (
                f"the graph calls {found['what']}, which torch does not know to be safe to cache"
            ),
        ),
        (
            r"Unsupported node op (?P<what>\w+)",
            lambda found: f"the graph has a node that torch cannot cache ({found['what']})",
        ),
        (
            r".*freezing",
            lambda _: (
                "weights are frozen into the code (torch._inductor.config.freezing), and would be "
                "cached with it"
            ),
        ),
        (
            r"FX graph cache is not enabled",
            lambda _: "Inductor's FX graph cache is off, and AOTAutograd's cache needs it",
        ),
        (r".*compiled autograd", lambda _: "the graph belongs to compiled autograd"),
        (
            r".*fakify_first_call",
            lambda _: "the first call is made with fake tensors (fakify_first_call)",
        ),
        (
            r"SAC context_fn",
            lambda _: (
                "a context_fn of selective checkpointing is a function that torch cannot compare: "
                "give it a cache_hash"
            ),
        ),
        (
            r"(?:Can't|Cannot) cache HigherOrderOperator:? ?(?P<what>\S+)",
            lambda found: f"the graph has the operator {found['what']}, which contains graphs",
        ),
        (
            r"Cannot produce stable cache key for unpicklable type (?P<what>\S+)",
            lambda found: f"the key would need an object that cannot be pickled ({found['what']})",
        ),
        (
            r"Failed to pickle cache key",
            lambda _: "the key would need an object that cannot be pickled",
        ),
        (
            r".*(?:custom pass|Unsupported .*pass)",
            lambda _: "your pass has no uuid(), so torch cannot distinguish it from others",
        ),
        (
            r".*uuid\(\)",
            lambda _: "your function has no uuid(), so torch cannot distinguish it from others",
        ),
        (
            r"Can't cache (?:a )?graph.* with .*const",
            lambda _: "the graph contains constants that torch cannot serialize",
        ),
        (
            r"Cannot cache a torchbind|.*ScriptObject|.*torchbind",
            lambda _: "the graph contains a TorchScript object",
        ),
        (r".*mkldnn", lambda _: "an input is an MKLDNN tensor"),
        (r"AOTAutogradCache requires triton", lambda _: "Triton is older than 3.2"),
    )
)


def describe_bypass(reason: str) -> str:
    """Return torch's reason for a bypass in plain words; an unknown reason as torch writes it."""
    for pattern, words in _REASONS:
        match = pattern.match(bounded(reason))
        if match:
            return words(match)
    return reason or "torch gives no reason"


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Number of compilations that found their code in a cache, and where the remaining compile time
    went.
    """

    hits: int
    """Compilations with a cache hit."""
    asked: int
    """Compilations that asked a cache."""
    saved_s: float
    """Seconds of compile time saved by the caches, as torch estimates them."""
    done: tuple[tuple[str, float], ...]
    """Phases, in words, with their seconds; the longest first."""
    total_s: float


def warm_start(reader: SessionReader, answers: list[CacheAnswer]) -> WarmStart | None:
    """Return the facts about a warm start; None without a cache hit. ``answers`` are all of the
    session.
    """
    found = {answer.compilation.id for answer in answers if answer.record.outcome == "hit"}
    if not found:
        return None
    times = stage_times(reader)
    done = sorted(
        ((STAGE_IN_WORDS.get(stage, stage), spent) for stage, spent in times.by_stage.items()),
        key=lambda pair: -pair[1],
    )
    asked = {answer.compilation.id for answer in answers}
    return WarmStart(len(found), len(asked), _saved(answers), tuple(done), times.total_s)


def _saved(answers: list[CacheAnswer]) -> float:
    """Return the seconds that all hits saved. A hit of AOTAutograd's cache includes those of
    Inductor's below it.
    """
    outer: dict[int, float] = {}
    inner: dict[int, float] = {}
    for answer in answers:
        if answer.record.outcome == "hit":
            of = outer if answer.record.cache == "aotautograd" else inner
            of[answer.compilation.id] = of.get(answer.compilation.id, 0.0) + answer.record.saved_s
    return sum(outer.get(key) or inner.get(key, 0.0) for key in {*outer, *inner})


# What differs in a part of a key, in words.


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """The difference in one part of the key.

    The parts are the attributes of ``FxGraphHashDetails`` (torch/_inductor/codecache.py) and of
    ``AOTAutogradCacheDetails`` (torch/_functorch/_aot_autograd/autograd_cache.py).
    """

    text: str
    left: str = ""
    """The left run's value, shortened to the part that differs."""
    right: str = ""
    left_place: str = ""
    """``model.py:12``: the line from which the left run's value comes; empty for a setting."""
    right_place: str = ""


_SETTINGS = {
    "torch_version": "another build of torch, or changed sources of torch",
    "cache_key_tag": "torch.compiler.config.cache_key_tag",
    "cpp_runtime_thread_count": "the number of CPU threads (torch.get_num_threads())",
    "default_dtype": "torch.set_default_dtype()",
    "default_cuda_device_index": "the current GPU",
    "deterministic_algorithms_settings": "torch.use_deterministic_algorithms()",
    "cuda_matmul_settings": (
        "the precision of matrix products (torch.set_float32_matmul_precision())"
    ),
    "provenance_tracking_level": "torch._inductor.config.trace.provenance_tracking_level",
    "precompile_enabled": "torch._functorch.config.bundled_autograd_cache",
    "pre_grad_custom_pass": "your pass torch._inductor.config.pre_grad_custom_pass",
    "post_grad_custom_pre_pass": "your pass torch._inductor.config.post_grad_custom_pre_pass",
    "post_grad_custom_post_pass": "your pass torch._inductor.config.post_grad_custom_post_pass",
    "joint_custom_pre_pass": "your pass torch._inductor.config.joint_custom_pre_pass",
    "joint_custom_post_pass": "your pass torch._inductor.config.joint_custom_post_pass",
    "_pre_fusion_custom_pass": "your pass torch._inductor.config._pre_fusion_custom_pass",
    "_post_fusion_custom_pass": "your pass torch._inductor.config._post_fusion_custom_pass",
    "_custom_partitioner_fn": "your partitioner torch._inductor.config.custom_partitioner_fn",
    "grad_enabled": "whether gradients are on (torch.no_grad())",
    "disable_amp": "torch.amp.autocast()",
    "deterministic_algorithms": "torch.use_deterministic_algorithms()",
    "has_triton": "whether Triton is installed",
}

_GROUPS = {
    "inductor_config": "torch._inductor.config.{}",
    "inductor_config_comms": "torch._inductor.config.aten_distributed_optimizations or its "
    "like: {}",
    "autograd_config": "torch._functorch.config.{}",
    "dynamo_config": "torch._dynamo.config.{}",
    "fx_kwargs": "how Inductor is called: {}",
    "system_info": "another GPU, driver or CUDA ({})",
    "user_defined_triton_source": "the source of your Triton kernel number {}",
    "_fuse_ddp_communication_passes": "torch._inductor.config._fuse_ddp_communication_passes",
}

_FIELDS = {
    "shape": "shape",
    "stride": "strides",
    "dtype": "dtype",
    "device": "device",
    "requires_grad": "requires_grad",
    "storage_offset": "offset in its storage",
    "storage_bytes": "size of its storage",
}

_INDEXED = re.compile(r"(?P<group>\w+)\[(?P<key>.*)\]$")

_ASSIGNED = re.compile(r"\s*(?P<name>\w+)(?:: .*?)? = ")

LONGEST = 100
"""Maximum number of characters of a value that are shown."""


def explain(
    left: SessionReader,
    right: SessionReader,
    cache_answer: CacheAnswer,
    other: CacheAnswer,
    name: str,
    before: str,
    after: str,
) -> KeyDifference:
    """Explain the difference in the part ``name`` of both keys."""
    if name == "gm":
        return _graph(left, right, cache_answer, other, before, after)
    indexed = _INDEXED.match(name)
    if indexed and indexed["group"] == "example_inputs":
        return _input(indexed["key"], before, after)
    if indexed and indexed["group"] in _GROUPS:
        words = _GROUPS[indexed["group"]].format(indexed["key"])
    else:
        words = _SETTINGS.get(name, f"what torch calls {name}")
    if name == "torch_version":  # a hash in bytes
        return KeyDifference(words, "", "")
    return KeyDifference(words, _short(before), _short(after))


def _graph(
    left: SessionReader,
    right: SessionReader,
    cache_answer: CacheAnswer,
    other: CacheAnswer,
    before: str,
    after: str,
) -> KeyDifference:
    """Compare the code of two graphs, and name the first line that differs with its line of the
    user's.
    """
    lines_before, lines_after = before.splitlines(), after.splitlines()
    pairs = zip(lines_before, lines_after, strict=False)
    differing = (at for at, (one, two) in enumerate(pairs) if one != two)
    at = next(differing, min(len(lines_before), len(lines_after)))
    line_before, line_after = _line_at(lines_before, at), _line_at(lines_after, at)
    return KeyDifference(
        "the graph",
        _short(line_before),
        _short(line_after),
        _place(left, cache_answer, line_before),
        _place(right, other, line_after),
    )


def _line_at(lines: Sequence[str], at: int) -> str:
    """Return a line without its indentation; empty after the last line."""
    return lines[at].strip() if at < len(lines) else ""


def _place(reader: SessionReader, answer: CacheAnswer, line: str) -> str:
    """Return the user's line of the node that a line of a graph's code computes; empty where it is
    not known.
    """
    match = _ASSIGNED.match(line)
    if not match:
        return ""
    for stage in ("forward", "joint", "backward", "post_grad"):
        for graph in reader.rows(
            model.Graph, compilation=answer.compilation.id, stage=stage, parent=0
        ):
            for node in reader.nodes(graph):
                if node.name == match["name"] and node.line:
                    return in_file(reader.get(model.SourceFile, node.file).path, node.line)
    return ""


def _input(number: str, before: str, after: str) -> KeyDifference:
    left, right = _fields(before), _fields(after)
    keys = dict.fromkeys([*left, *right])
    differing = [key for key in keys if left.get(key) != right.get(key)]
    if not differing:
        return KeyDifference(f"input {number} of the graph", _short(before), _short(after))
    what = _FIELDS.get(differing[0], differing[0])
    return KeyDifference(
        f"the {what} of input {number} of the graph",
        _short(_field_values(left, differing)),
        _short(_field_values(right, differing)),
    )


def _field_values(fields: Mapping[str, str], keys: Iterable[str]) -> str:
    texts = [f"{_FIELDS.get(key, key)} {_plain(fields.get(key, 'none'))}" for key in keys]
    return ", ".join(texts)


def _fields(text: str) -> dict[str, str]:
    """Return the fields of ``TensorMetadata(dtype=torch.float32, shape=torch.Size([4, 8]), …)``."""
    inner = text.partition("(")[2].removesuffix(")")
    found: dict[str, str] = {}
    depth, begins = 0, 0
    for at, character in enumerate(f"{inner},"):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            key, _, value = inner[begins:at].partition("=")
            if value:
                found[key.strip()] = value.strip()
            begins = at + 1
    return found


def _plain(value: str) -> str:
    if value.startswith("torch.Size("):
        return value.removeprefix("torch.Size(").removesuffix(")")
    return value


def _short(text: str) -> str:
    flat = " ".join(text.split())
    if len(flat) <= LONGEST:
        return flat
    return f"{flat[: LONGEST - 1]}…"


# The keys of two runs, part by part.


@dataclass(frozen=True, slots=True)
class DifferingComponent:
    """A part of the key that differs; a side that lacks it has an empty text."""

    name: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The look-ups of both runs in one cache for the same compilation."""

    cache: Cache
    left: CacheAnswer
    right: CacheAnswer
    components: tuple[DifferingComponent, ...]
    """Components of the key that differ, in torch's order."""
    first: KeyDifference | None
    """The first differing component in words; None where it is not known."""

    @property
    def is_same_key(self) -> bool:
        return self.left.record.key == self.right.record.key


def key_pairs(left: SessionReader, right: SessionReader) -> list[KeyPair]:
    """Return the look-ups of both runs, paired by compilation, cache and order, without those that
    have no key on one side.
    """
    sides = [_by_question(reader) for reader in (left, right)]
    pairs = []
    for question, of_left in sides[0].items():
        for cache_answer, other in zip(of_left, sides[1].get(question, ()), strict=False):
            if cache_answer.record.key and other.record.key:
                pairs.append(_pair(left, right, cache_answer, other))
    return pairs


def _by_question(reader: SessionReader) -> dict[tuple[str, Cache], list[CacheAnswer]]:
    found = defaultdict(list)
    for answer in cache_answers(reader):
        found[answer.compilation.name, answer.record.cache].append(answer)
    return dict(found)


def _pair(
    left: SessionReader, right: SessionReader, cache_answer: CacheAnswer, other: CacheAnswer
) -> KeyPair:
    of_left, of_right = _named(cache_answer), _named(other)
    differing = []
    for name in dict.fromkeys([*of_left, *of_right]):
        left_hash, left_value = of_left.get(name, ("", ""))
        right_hash, right_value = of_right.get(name, ("", ""))
        if left_hash != right_hash:
            differing.append(DifferingComponent(name, left_value, right_value))
    first = None
    if differing:
        part = differing[0]
        first = explain(left, right, cache_answer, other, part.name, part.left, part.right)
    return KeyPair(cache_answer.record.cache, cache_answer, other, tuple(differing), first)


def _named(answer: CacheAnswer) -> dict[str, tuple[str, str]]:
    """Return name → (hash, value). A name that occurs twice is numbered."""
    found: dict[str, tuple[str, str]] = {}
    times: dict[str, int] = {}
    for part in answer.record.components:
        times[part.name] = times.get(part.name, 0) + 1
        if times[part.name] == 1:
            name = part.name
        else:
            name = f"{part.name} ({times[part.name]})"
        found[name] = (part.digest, part.value)
    return found
