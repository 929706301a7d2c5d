"""The answer about ranks in sentences, the same for every format and for the app."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from fx_explorer.analysis.words import counted, listed, seconds
from fx_explorer.instruments.ranks.compared import ComparedRanks
from fx_explorer.instruments.ranks.groups import RankGroup, agreement, known_aspects
from fx_explorer.instruments.ranks.rank_finding import (
    ASPECTS,
    RankFinding,
    describe_others,
    format_ranks,
    rank_numbers,
)
from fx_explorer.instruments.ranks.summary import began_together
from fx_explorer.session.file_names import in_file

MOST_FURTHER = 40
"""Maximum number of further differences that are written out."""

MOST_OF_A_KIND = 3
"""Maximum number of findings of one kind about the same ranks that are written out."""


MOST_PARTIES = 8
"""Maximum number of sets of ranks that are written out for one aspect. The ranks of a set agree in
it.
"""


def headline(ranks: ComparedRanks) -> str:
    """Return whether the ranks agree, in a sentence."""
    count = len(ranks.summaries)
    first = ranks.first
    if count == 1:
        return f"There is only rank {ranks.summaries[0].rank}, so there is nothing to compare."
    if first is None:
        unknown = [rank.rank for rank in ranks.summaries if rank.unknown_end]
        silent = [
            rank.rank for rank in ranks.summaries if rank.unknown_end and not rank.compilations
        ]
        if silent:
            its = "its log" if len(silent) == 1 else "their logs"
            return f"{as_sentence(format_ranks(silent))} compiled nothing before the end of {its}."
        if len(unknown) == count:
            return f"{as_sentence(format_ranks(unknown))} did the same until the end of their logs."
        if unknown:
            text = describe_others(
                [rank.rank for rank in ranks.summaries if not rank.unknown_end], unknown, count
            )
            logs = "its log" if len(unknown) == 1 else "their logs"
            return (
                f"{as_sentence(format_ranks(unknown))} did the same as {text}, until the end "
                f"of {logs}."
            )
        who = "Both ranks" if count == 2 else f"All {count:,} ranks"
        if len(ranks.groups) > 1:
            parts = f"the {count:,} ranks have {counted(len(ranks.groups), 'part')} of the model"
            return f"No rank diverges: {parts}, and ranks with the same part compiled the same."
        each = counted(len(ranks.summaries[0].compilations), "compilation")
        failed = sum(compilation.has_failed for compilation in ranks.summaries[0].compilations)
        of_which = f", of which {failed:,} failed" if failed else ""
        if any(rank.is_text for rank in ranks.summaries):
            return f"{who} did the same until the end of the text, {each} each{of_which}."
        return f"{who} compiled the same, {each} each{of_which}."
    others = describe_others(first.others, ranks.differing, count)
    verb = "diverges" if len(ranks.differing) == 1 else "diverge"
    diverges = f"{as_sentence(format_ranks(ranks.differing))} {verb} from {others}."
    failure = first_failure(ranks)
    if failure:
        return f"{as_sentence(failure.words)}. {diverges}"
    return diverges


def first_failure(ranks: ComparedRanks) -> RankFinding | None:
    """Return the first finding on ranks that failed to compile what others compiled; None without
    one.
    """
    failed = {rank.rank for rank in ranks.summaries if rank.has_failed}
    statuses = (finding for finding in ranks.findings if finding.aspect == "status")
    return next((finding for finding in statuses if set(finding.ranks) <= failed), None)


def first_sentence(ranks: ComparedRanks) -> str:
    """Return a sentence on where ranks first diverged; empty where they did not, or where they
    failed, which the headline says.
    """
    if ranks.first is None or ranks.first is first_failure(ranks):
        return ""
    return f"First: {describe_first_divergence(ranks.first)}"


def describe_first_divergence(finding: RankFinding) -> str:
    """Return the sentence about the first divergence."""
    if finding.compilation or finding.other_compilation:
        at = f" ([{finding.compilation or finding.other_compilation}])"
    else:
        at = ""
    return f"{as_sentence(finding.words)}{at}."


def place(finding: RankFinding) -> str:
    if finding.file:
        return in_file(finding.file, finding.line)
    return ""


def further(findings: Sequence[RankFinding], first: RankFinding | None) -> Iterator[str]:
    """Yield sentences on the other differences. Of one kind about the same ranks, only the first
    few are written out, with their number.
    """
    rest = sorted(
        (finding for finding in findings if finding is not first),
        key=lambda finding: (finding.position, finding.ranks),
    )
    count = 0
    for _, group in groupby(rest, key=lambda finding: (finding.aspect, finding.ranks)):
        alike = list(group)
        if count >= MOST_FURTHER:
            yield f"… and {counted(len(rest) - count, 'more difference')}."
            return
        count += len(alike)
        yield from (f"{as_sentence(finding.words)}." for finding in alike[:MOST_OF_A_KIND])
        if len(alike) > MOST_OF_A_KIND:
            what = ASPECTS[alike[0].aspect]
            yield (
                f"… and {len(alike) - MOST_OF_A_KIND:,} more of {format_ranks(alike[0].ranks)}: "
                f"{what}."
            )


def first_of_group(findings: Sequence[RankFinding], group: RankGroup) -> RankFinding | None:
    """Return where a group first diverged; None for the first group, and for a group that only has
    an unknown end.
    """
    return next(
        (finding for finding in findings if finding.ranks == group.ranks and finding.is_divergence),
        None,
    )


def describe_group(ranks: ComparedRanks, group: RankGroup) -> str:
    """Return a phrase on how a group relates to the first one."""
    if group is ranks.groups[0]:
        if len(ranks.groups) > 1:
            return "the baseline of the others"
        return "alike"
    first = first_of_group(ranks.findings, group)
    of_group = [finding for finding in ranks.findings if finding.ranks == group.ranks]
    has_parts = any(finding.aspect == "parts" for finding in of_group)
    if group.first.unknown_end:
        unknown = f"its end is unknown: {group.first.unknown_end}"
    else:
        unknown = ""
    if first is None:
        if unknown:
            return f"the same up to its end, which is unknown: {group.first.unknown_end}"
        if has_parts:
            return "another part of the model"
        return "alike"
    at = f" at {place(first)}" if first.file else ""
    return "; ".join(filter(None, (f"differs in {ASPECTS[first.aspect]}{at}", unknown)))


def group_figures(group: RankGroup) -> str:
    """Write in words how many compilations the ranks of a group have, how they ended, and how long
    they took.
    """
    statuses = Counter(compilation.status for compilation in group.first.compilations)
    parts = [
        f"{statuses[status]:,} {words}" for status, words in _STATUSES.items() if statuses[status]
    ]
    times = sorted(rank.compile_s for rank in group.members)
    if times[-1]:
        took = " to ".join(dict.fromkeys((seconds(times[0]), seconds(times[-1]))))
    else:
        took = "times unknown"
    count = counted(len(group.first.compilations), "compilation")
    if parts:
        count += f" ({listed(parts)})"
    return f"{count}, {took}"


_STATUSES = {"failed": "failed", "skipped": "runs in eager mode", "running": "without an end"}


def agreed(ranks: ComparedRanks) -> tuple[list[str], list[str]]:
    """Return the aspects in which all ranks agree; and, for the aspects of the findings, which
    ranks agree with which.
    """
    same, other = [], []
    differing = {finding.aspect for finding in ranks.findings}
    known = known_aspects(ranks.summaries)
    for aspect, groups in agreement(ranks.summaries).items():
        if aspect not in known:
            continue
        if len(groups) == 1:
            same.append(ASPECTS[aspect])
        elif aspect in differing:
            parties = [rank_numbers(group) for group in groups[:MOST_PARTIES]]
            if len(groups) > MOST_PARTIES:
                parties.append("…")
            other.append(f"{ASPECTS[aspect]}: {' | '.join(parties)}")
    return same, other


def gaps(ranks: ComparedRanks) -> list[str]:
    """Return sentences on ranks whose data is incomplete; empty where it is complete."""
    sentences = []
    for rank in ranks.summaries:
        if rank.unknown_end:
            name = as_sentence(format_ranks([rank.rank]))
            sentences.append(f"{name}: its end is unknown, {rank.unknown_end}.")
    sentences += [f"{note}." for note in ranks.notes]
    has_compilations = any(rank.compilations for rank in ranks.summaries)
    if has_compilations and not began_together(ranks.summaries):
        sentences.append(_APART)
    return sentences


_APART = (
    "The ranks did not begin to compile within ten minutes of each other, or their logs have no "
    "times: they may belong to several jobs, so it is not shown which rank waits for which."
)


def list_unused_files(ranks: ComparedRanks, most: int = 8) -> list[str]:
    parts = [f"{other_file.path.name} {other_file.why}" for other_file in ranks.left_out]
    if len(parts) <= most:
        return parts
    return [*parts[:most], f"and {len(parts) - most:,} more"]


def as_sentence(words: str) -> str:
    """Return a sentence that begins with a capital, unless it begins with a name of the program."""
    if words.partition(" ")[0].isalpha():
        return words[:1].upper() + words[1:]
    return words
