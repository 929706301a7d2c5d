"""Dynamic sizes in the JSON report."""

from __future__ import annotations

from fx_explorer.analysis.guards.symbols import ExplainedSymbol

Json = dict[str, object]


def symbol(one: ExplainedSymbol) -> Json:
    """Return a dynamic size; ``became`` is null for one that stayed free, ``fixed_at`` null where
    it is not known who fixed it.
    """
    symbol, fixed, (file, line) = one.symbol, one.specialized, one.made_at
    return {
        "compilation": one.compilation,
        "name": symbol.name,
        "user_name": one.name,
        "sources": list(symbol.sources),
        "hint": symbol.hint or None,
        "range": symbol.final_range or symbol.range,
        "became": symbol.became or None,
        "file": file,
        "line": line,
        "fixed_at": {"file": fixed.file, "line": fixed.line} if fixed and fixed.file else None,
        "guards": len(one.guards),
    }
