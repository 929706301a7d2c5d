"""What a TORCH_TRACE log was read to be, as facts for the overview of its session."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader

NOT_TOLD = "A log says nothing of what the program did besides, or of how it ended."


def is_log(reader: SessionReader) -> bool:
    """Return whether the session was made of a log, and of no run."""
    return (reader.meta("target") or {}).get("kind") == "log"


def log_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield how much of the log was read, and what was not."""
    told = reader.meta("log") or {}
    name = (reader.meta("target") or {}).get("name", "The file")
    skipped, changed = int(reader.meta("skipped_records", 0)), int(told.get("wrong_hashes", 0))
    read = "all of them read" if not skipped else f"{counted(skipped, 'line')} could not be read"
    text = f"{name} is a TORCH_TRACE log: {counted(int(told.get('records', 0)), 'record')}, {read}."
    yield Fact("run", "notice" if skipped else "good", text, NOT_TOLD, view="source")
    if changed:
        words = f"Texts that are not what torch wrote: {changed:,}. They were changed, or mixed with others."
        at = listed([str(line) for line in told.get("damaged_lines", ())])
        yield Fact("run", "notice", words, f"The first lines of the log that are damaged: {at}.")
    unknown = told.get("unknown") or {}
    if unknown:
        kinds = listed([f"{kind} ({count:,})" for kind, count in sorted(unknown.items())], 6)
        yield Fact("run", "notice", f"Not known here, and kept as texts: {kinds}.", view="source")
