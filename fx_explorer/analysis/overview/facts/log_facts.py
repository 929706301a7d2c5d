"""What a TORCH_TRACE log was read to be, as facts for the overview of its session."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.whole_session.log_sessions import damage, not_in_text
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader

NOT_TOLD = "A log says nothing of what the program did besides, or of how it ended."

NOT_IN_TEXT = "Not in this text: {}. TORCH_TRACE writes a log that has all."

NOT_IN_DIRECTORY = "It begins with AOTAutograd's graphs: of Dynamo, breaks, guards and times there is nothing in it."


ONLY_NAMES = "It has names of nodes and kernels. The graphs and the code are in the package or debug directory it is from."

ONLY_TRITON = "It has what Triton compiled and launched: of torch's graphs, breaks and guards there is nothing in it."


def log_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much of the log was read, and what was not."""
    told = reader.meta("log") or {}
    name = (reader.meta("target") or {}).get("name", "The file")
    found = damage(reader)
    whole = "" if found else ", all of them read"
    records = int(told.get("records", 0))
    if told.get("format") == "torch_logs":
        has = listed(
            [f"{kind} ({count:,})" for kind, count in (told.get("kinds") or {}).items()], 8
        )
        text = f"{name} has {counted(records, 'message')} that torch printed for TORCH_LOGS: {has}."
        absent = [*not_in_text(reader), "times", "how compilations ended"]
        detail = NOT_IN_TEXT.format(listed(absent, 8))
        yield Fact("run", "notice" if found else "good", text, detail, view="source")
    elif told.get("format") == "debug_directory":
        text = f"{name} is a directory that torch wrote for TORCH_COMPILE_DEBUG: {counted(records, 'file')}{whole}."
        beside = told.get("beside") or []
        more = (
            f" torch wrote a log of the same run, which has more: fx-explorer {beside[0]}"
            if beside
            else ""
        )
        yield Fact(
            "run", "notice" if found else "good", text, f"{NOT_IN_DIRECTORY}{more}", view="source"
        )
    elif told.get("format") == "provenance":
        text = f"{name} is a table of torch's: what each kernel computes{whole}."
        yield Fact("run", "notice" if found else "good", text, ONLY_NAMES, view="source")
    elif told.get("format") == "tritonparse":
        has = listed(
            [f"{kind} ({count:,})" for kind, count in (told.get("kinds") or {}).items()], 8
        )
        text = f"{name} is a log of tritonparse: {counted(records, 'event')}{whole}: {has}."
        yield Fact("run", "notice" if found else "good", text, ONLY_TRITON, view="kernels")
    else:
        text = f"{name} is a TORCH_TRACE log: {counted(records, 'record')}{whole}."
        yield Fact("run", "notice" if found else "good", text, NOT_TOLD, view="source")
    ranks = [rank for rank in told.get("ranks", ()) if rank >= 0]
    if len(ranks) > 1:
        text = f"{counted(len(ranks), 'rank')} wrote into this file ({listed(map(str, ranks), 8)}), each with its own [0/0]."
        yield Fact(
            "run", "notice", text, f"They are taken apart and compared by: fx-explorer ranks {name}"
        )
    if found:
        lines = list(dict.fromkeys(f"{line:,}" for line in told.get("damaged_lines", ())))
        where = (
            f"First in {'line' if len(lines) == 1 else 'lines'} {listed(lines)}." if lines else ""
        )
        yield Fact(
            "run", "notice", f"Not all of it is as torch wrote it: {'; '.join(found)}.", where
        )
    unknown = told.get("unknown") or {}
    if unknown:
        kinds = listed([f"{kind} ({count:,})" for kind, count in sorted(unknown.items())], 6)
        yield Fact("run", "notice", f"Not known here, and kept as texts: {kinds}.", view="source")
