"""What a log says of how kernels were chosen: what Inductor's autotuning measured, and the
configuration that Triton took.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.kernels.candidates import may_be_template
from fx_explorer.session import SessionReader

METRIC = "autotune_choices_stats"
"""Under torch's name for it (torch/_inductor/select_algorithm.py, ``_log_autotune_choices_stats``).
"""

NOT_IN_LOG = (
    "A log does not list what else there was to choose from, nor what each choice "
    "became: a capture of the program with "
    "--build does."
)

CONFIGURATIONS = "Configurations of kernels"
"""Title of torch's record ``triton_kernel_info``."""


@dataclass(frozen=True, slots=True)
class MeasuredChoice:
    """One operation for which Inductor measured Triton templates and calls of libraries."""

    compilation: int
    operation: str
    """``mm``."""
    choices: int
    triton_choices: int
    best: str
    """``triton_mm_12``."""
    best_description: str
    """Its options, as torch writes them."""
    best_s: float
    best_triton: str
    """The best template, where a library is better."""
    best_triton_s: float

    @property
    def in_words(self) -> str:
        of_triton = f", {self.triton_choices:,} of them Triton templates"
        text = (
            f"Inductor measured {counted(self.choices, 'choice')} for {self.operation}{of_triton}"
        )
        text += f": the best is {self.best} at {self.best_s * 1e6:.3g} µs"
        if self.best_triton:
            text += f", the best template {self.best_triton} at {self.best_triton_s * 1e6:.3g} µs"
        return text


def measured_choices(reader: SessionReader, compilation: int = 0) -> list[MeasuredChoice]:
    """Return what autotuning measured, in the order of the log; of one compilation, or of all."""
    of = {"compilation": compilation} if compilation else {}
    rows = reader.rows(model.Metric, name=METRIC, **of)
    return [choice for row in rows for choice in _choice(row)]


def _choice(row: model.Metric) -> Iterator[MeasuredChoice]:
    found = json.loads(str(row.value))
    if not isinstance(found, dict):
        return
    yield MeasuredChoice(
        row.compilation,
        str(found.get("operation") or "an operation"),
        int(_number(found, "num_choices")),
        int(_number(found, "num_triton_choices")),
        str(found.get("best_kernel") or ""),
        str(found.get("best_kernel_desc") or ""),
        _number(found, "best_time") / 1e3,
        str(found.get("best_triton_kernel") or ""),
        _number(found, "best_triton_time") / 1e3,
    )


def may_be_tuned(kernel: model.Kernel) -> bool:
    """Return whether autotuning may have chosen it: a template, or the call of a library that has
    templates beside it.
    """
    is_template = kernel.name.startswith("triton_tem_")
    return is_template or (kernel.language == "extern" and may_be_template(kernel))


def configuration_in_words(reader: SessionReader, kernel: model.Kernel) -> str:
    """Return which configuration a Triton kernel of a log was built for: ``XBLOCK 1, num_warps 4``;
    empty where the log does not say.
    """
    documents = reader.rows(model.Artifact, compilation=kernel.compilation, kind="listing")
    for document in documents:
        if not document.title.startswith(CONFIGURATIONS):
            continue
        try:
            found = json.loads(reader.text(document.text))
        except (ValueError, RecursionError):
            continue  # a record that is cut off, which the session counts
        info = found.get(kernel.name) if isinstance(found, dict) else None
        if isinstance(info, dict):
            return _options_in_words(info.get("only_config") or info.get("best_config"))
    return ""


def _options_in_words(options: object) -> str:
    pairs = list(options.items()) if isinstance(options, dict) else options
    if not isinstance(pairs, list):
        return ""
    known = [pair for pair in pairs if isinstance(pair, list | tuple) and len(pair) == 2]
    return ", ".join(f"{name} {value}" for name, value in known)


def _number(found: dict[str, object], key: str) -> float:
    value = found.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else 0.0  # type: ignore[arg-type]
