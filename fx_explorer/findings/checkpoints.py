"""Selective activation checkpointing around compiled code: the policy sees no operation of it, and
saves nothing of what it should (``create_selective_checkpoint_contexts`` in
torch/utils/checkpoint.py).
"""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_path
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file


def find_checkpoints(reader: SessionReader) -> Iterator[Finding]:
    """Yield a finding for each line that checkpoints a function compiled by Inductor with a policy.
    Other backends of torch's run the graph in eager mode, where the policy has its effect.
    """
    if not reader.count(model.Compilation, backend="inductor"):
        return
    for name, file, line, _ in reader.meta("selective_checkpoints") or ():
        yield Finding(
            kind="checkpoint",
            text=(
                f"{in_file(file, line)} checkpoints {name}, which is compiled: the policy of "
                "context_fn has no effect on it."
            ),
            urgency="slow",
            topic="memory",
            place=place_of_path(reader, file, line),
            view="memory",
            explanation=(
                "The policy chooses among operations as eager mode calls them. In Inductor's code "
                "it sees only library calls, under other names (addmm.out), so nothing it names "
                "is saved, and everything is recomputed in the backward."
            ),
            remedies=(
                Remedy(
                    "Compile around the checkpoint: torch.compile a function or module that calls "
                    f"checkpoint({name}, …). Then the policy is applied in the graph. context_fn "
                    "must exist before that call: use a function or a functools.partial, not a "
                    "lambda inside the compiled code."
                ),
            ),
        )
