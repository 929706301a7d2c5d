"""What torch warned of while it compiled, on the program's terminal, where it says that something
was not done as asked.

Only warnings of the list count: others are about the use of Python, or for torch's own developers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.facts import Severity
from fx_explorer.findings.finding import Finding, Remedy, Urgency
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts import bounded

MOST_LINES = 5_000
"""Maximum number of lines of output that are searched."""


@dataclass(frozen=True, slots=True)
class KnownWarning:
    pattern: re.Pattern[str]
    source: str
    """File of torch that warns."""
    text: str
    explanation: str
    remedies: tuple[Remedy, ...] = ()
    urgency: Urgency = "slow"
    severity: Severity = "notice"


KNOWN_WARNINGS = (
    KnownWarning(
        re.compile(r"does not support code generation for complex operators"),
        "torch/_inductor/lowering.py",
        "The program computes with complex numbers, for which Inductor generates no code.",
        "Each operation on complex numbers calls PyTorch's own operator, without fusion: the "
        "compiled code may be slower than eager mode.",
        (
            Remedy(
                "Compute with the real and imaginary parts as real tensors (torch.view_as_real; "
                "for rotary embeddings, cos and sin instead of torch.polar)."
            ),
        ),
    ),
    KnownWarning(
        re.compile(r"TensorFloat32 tensor cores .{1,100} available but not enabled"),
        "torch/_inductor/compile_fx.py",
        "Matrix multiplications in float32 do not use the GPU's tensor cores.",
        "PyTorch keeps float32 exact by default.",
        (
            Remedy(
                "Call torch.set_float32_matmul_precision('high'). Results are rounded to "
                "TensorFloat32 inside of multiplications."
            ),
        ),
    ),
    KnownWarning(
        re.compile(
            r"Unable to hit fast path of CUDAGraphs because "
            r"(?:of pending, uninvoked backwards|outputs from a previous step still require)"
        ),
        "torch/_inductor/cudagraph_trees.py",
        "CUDA graphs run on the slow path: a backward of an earlier call is still pending.",
        "torch replays a CUDA graph only when it knows that the memory of the earlier call is "
        "free.",
        (
            Remedy(
                "Run the backward of each forward, or run forwards that have none under no_grad."
            ),
            Remedy("Call torch.compiler.cudagraph_mark_step_begin() before each step."),
        ),
    ),
    KnownWarning(
        re.compile(r"Not enough SMs to use max_autotune_gemm mode"),
        "torch/_inductor/utils.py",
        "max-autotune does not try Triton templates for matrix multiplications on this GPU.",
        "torch tries them only on GPUs with enough multiprocessors (68 by default).",
        urgency="minor",
    ),
    KnownWarning(
        re.compile(
            r"Dynamo detected a call to a `?functools\.lru_cache`?(?:-wrapped function at "
            r"'(?P<file>[^':]{1,200}):\d+')?"
        ),
        "torch/_dynamo/variables/functions.py",
        "Dynamo traces through functools.lru_cache, as if the cache were not there.",
        "The cached function runs again for each compilation: its cached results are not used.",
        urgency="minor",
    ),
    KnownWarning(
        re.compile(
            r"(?:^(?P<caller>[^\n]{1,400}?):(?P<line>\d{1,7}): \w+: )?"
            r"Parallelize plan key '.{1,200}' could not be resolved: "
            r".{1,200} in module OptimizedModule"
        ),
        "torch/distributed/tensor/parallel/api.py",
        "parallelize_module parallelized nothing: it was given the wrapper that torch.compile "
        "returned.",
        "In this wrapper, module names begin with _orig_mod., and parallelize_module skips names "
        "that it does not find. Each rank computes the whole model.",
        (
            Remedy(
                "Call parallelize_module first, and give its result to torch.compile; or compile "
                "in place, model.compile(), which keeps the names."
            ),
        ),
        urgency="wrong",
        severity="problem",
    ),
)


def find_torch_warnings(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each known warning that torch printed, with its number."""
    counts = dict.fromkeys(KNOWN_WARNINGS, 0)
    places: dict[KnownWarning, Place | None] = {}
    of_packages = _files_of_packages(reader)
    for row in reader.rows(model.ConsoleLine, limit=MOST_LINES):
        for warning in KNOWN_WARNINGS:
            match = warning.pattern.search(bounded(row.text))
            # The call of a package is nothing that the user can change.
            if match and match.groupdict().get("file") not in of_packages:
                counts[warning] += 1
                caller = match.groupdict().get("caller")
                if caller:
                    places[warning] = place_of_path(reader, caller, int(match["line"]))
    for warning, count in counts.items():
        if count:
            yield Finding(
                kind="warning of torch",
                text=warning.text,
                urgency=warning.urgency,
                severity=warning.severity,
                topic="kernels",
                place=places.get(warning),
                view="console",
                evidence=("torch warned of it.",),
                explanation=warning.explanation,
                remedies=warning.remedies,
                count=count,
            )


def _files_of_packages(reader: SessionReader) -> set[str]:
    """Return the names of files that are a package's only: torch's warnings have no folder."""
    names: dict[bool, set[str]] = {True: set(), False: set()}
    for file in reader.rows(model.SourceFile):
        names[file.is_user].add(PurePath(file.path).name)
    return names[False] - names[True]
