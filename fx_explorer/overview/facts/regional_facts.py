"""The overview's facts on regional compilation."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.variants.lineage import first_variants
from fx_explorer.session import SessionReader

WHAT_TO_DO = 'Mark a region, or put what is to be compiled under with torch.fx.traceback.annotate({"compile_with_inductor": "name"}).'


def regional_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact per compilation in which regional_inductor had nothing to compile."""
    for row in first_variants(reader):
        missing = row.missing_stages or {}
        reason = missing.get("output_code")
        has_begun = "joint" not in missing
        if (
            reason
            and has_begun
            and row.backend == "regional_inductor"
            and row.status in ("ok", "broke")
        ):
            yield Fact(
                "kernels",
                "problem",
                f"[{row.name}] was not compiled: {reason}.",
                WHAT_TO_DO,
                view="regions",
            )
