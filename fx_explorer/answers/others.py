"""Answers about options, caches, failures, processes, and the views of the app as they are."""

from __future__ import annotations

import json
from collections import Counter

from fx_explorer import model
from fx_explorer.analysis.cuda_graph_states import cuda_graphs
from fx_explorer.analysis.documents import (
    ARTIFACT_TITLES,
    Document,
    documents,
    lines_of,
    place_of_path,
    texts_titled,
)
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.whole_session import end_of_log, is_log
from fx_explorer.analysis.words import counted, listed
from fx_explorer.answers.answer import Answer, Json
from fx_explorer.answers.references import code_questions, place_text, text_number
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.compile_time.cache_report import bypass_sentences, caches_of_report
from fx_explorer.instruments.compile_time.caches import cache_answers
from fx_explorer.instruments.compile_time.caches_off import (
    AUTOTUNING,
    FORCED_OFF,
    autotuning_answers,
    caches_off,
    off_sentences,
)
from fx_explorer.instruments.compile_time.timing import compile_time
from fx_explorer.instruments.memory.snapshot_figures import figures_of
from fx_explorer.instruments.memory.snapshot_report import snapshot_object
from fx_explorer.instruments.options.explained_options import OTHERS, ExplainedOption, all_options
from fx_explorer.instruments.options.report import compile_option
from fx_explorer.instruments.side_effects import side_effect_json
from fx_explorer.instruments.values.figures import ValueOfGraph, values_of_graphs
from fx_explorer.instruments.values.report import collectives_json, values_json
from fx_explorer.model.study import META, parts_as_json, parts_from_json
from fx_explorer.overview.child_processes import children
from fx_explorer.overview.ending import failures
from fx_explorer.report.compilation_entries import other_variant
from fx_explorer.report.instrument_entries import (
    front_ends,
)
from fx_explorer.report.json_report import (
    child_process,
    cuda_graphs_of_report,
    failure,
)
from fx_explorer.report.sections import section_of
from fx_explorer.session import SessionReader
from fx_explorer.session.bounds import MAX_TRACEBACK
from fx_explorer.torch_texts.reports import BACKEND_FAILED


def of_options(reader: SessionReader) -> Answer:
    """Return the options that are explained, changed, or have a value in force of their own;
    ``--match`` chooses from every option of torch.
    """
    every_option = all_options(reader)
    options = [each for each in every_option if each.group != OTHERS or each.in_force]
    rows = [_option_row(option) for option in options]
    texts = [each for each in documents(reader) if _has_options(each)]
    changed = [option.name for option in options if option.is_changed]
    if rows and is_log(reader):
        text = (
            f"{counted(len(rows), 'option')} with the values in force when torch compiled. A log "
            "does not say the defaults, who set an option, or the arguments of torch.compile."
        )
    elif rows:
        more = len(every_option) - len(options)
        text = (
            f"{counted(len(changed), 'option')} changed from the default: "
            f"{listed(changed, 6) or 'none'}. Listed are {counted(len(rows), 'option')} of "
            "torch.compile in force"
        )
        text += f"; {more} more have default values: --match NAME finds them." if more else "."
    elif texts:
        text = "Options are not listed one by one; the settings were recorded as text: see next."
    else:
        text = "No option was recorded."
    rows.sort(key=lambda row: not row["is_changed"])
    return Answer(
        text=text,
        rows=rows,
        matched=[_option_row(option) for option in every_option],
        known_from="torch's configuration when the graphs were compiled; options without "
        "in_force: when the capture began",
        fields=("name", "value", "default", "is_changed", "does"),
        next=["options --match NAME --fields all"]
        if rows
        else code_questions(texts, "--match NAME"),
    )


def _option_row(option: ExplainedOption) -> Json:
    """Return an option with its value: several where it was changed in between."""
    values = [_in_words(json.loads(value)) for value in option.values]
    row = compile_option(option)
    if option.has_default:
        row["default"] = _in_words(row["default"])
    return {
        **row,
        "value": values[0] if len(values) == 1 else values,
        "is_changed": option.is_changed if option.has_default else None,
    }


def _in_words(value: object) -> object:
    """Return the value; that of None by name, since an answer leaves out fields without a value."""
    return "None" if value is None else value


def of_side_effects(reader: SessionReader) -> Answer:
    rows = side_effect_json(reader)
    for row in rows:
        row["code"] = _code_of_line(reader, str(row["file"] or ""), row["line"])
    return Answer(
        text=section_of(reader, "side_effects").answer,
        rows=rows,
        known_from=(
            "Dynamo's own record of side effects, from when it wrote the code around the graph"
        ),
        fields=("compilation", "function", "changed", "code", "how", "type", "file", "line"),
        next=["guards"] if rows else _texts_or_graphs(reader, "Side effects", "side_effects"),
    )


def of_values(reader: SessionReader) -> Answer:
    rows = values_json(reader)
    for row, value in zip(rows, values_of_graphs(reader), strict=True):
        row |= _expression(reader, value)
    return Answer(
        text=section_of(reader, "values").answer,
        rows=rows,
        known_from="AOTAutograd's ViewAndMutationMeta, read before it traced each graph",
        fields=(
            "value",
            "how",
            "of",
            "node",
            "code",
            "copied_bytes",
            "compilation",
            "function",
            "file",
            "line",
        ),
        next=["memory"] if rows else _texts_or_graphs(reader, "AOTAutograd's metadata"),
    )


def _expression(reader: SessionReader, value: ValueOfGraph) -> Json:
    """Return which node of the graph a value is, and the code of the line that makes it: the
    position of an output says neither.
    """
    nodes = reader.by_ids(model.Node, [value.node]) if value.node else []
    code = _code_of_line(reader, value.file, value.line)
    return {"node": nodes[0].name if nodes else "", "code": code}


def _code_of_line(reader: SessionReader, file: str, line: object) -> str:
    """Return the source of a line; empty where the session does not have it."""
    place = place_of_path(reader, file, line) if isinstance(line, int) and line else None
    lines = lines_of(reader, place.document) if place else []
    return lines[line - 1].strip() if isinstance(line, int) and 0 < line <= len(lines) else ""


def _texts_or_graphs(reader: SessionReader, *titles: str) -> list[str]:
    """Return the questions that show torch's own texts with these titles, which a log may have;
    else the one for graphs.
    """
    return code_questions(texts_titled(reader, *titles)) or ["graphs"]


def of_collectives(reader: SessionReader) -> Answer:
    rows = collectives_json(reader)
    return Answer(
        text=section_of(reader, "collectives").answer,
        rows=rows,
        known_from="the FX graphs, and the order of the generated code",
        fields=("order", "operator", "bytes", "group_size", "meanwhile", "direction", "line"),
        next=[f"node {rows[0]['node']}"] if rows else ["graphs"],
    )


def of_flame(reader: SessionReader) -> Answer:
    """Return every timed phase with exact seconds, and the phases that it runs inside."""
    times = compile_time(reader)
    if times is None:
        return of_section(reader, "flame")
    whole_s = times.root.duration_s
    rows: list[Json] = []
    around: list[str] = []
    for part in times.parts:
        frame = part.frame
        del around[frame.depth :]
        rows.append(
            {
                "depth": frame.depth,
                "what": frame.name,
                "seconds": round(frame.duration_s, 6),
                "itself_seconds": round(frame.self_s, 6),
                "share": round(frame.duration_s / whole_s, 4) if whole_s else None,
                "compilation": part.compilation,
                "phase": part.span.name if part.span else "",
                "began_s": round(part.span.start_s, 6) if part.span else None,
                "within": " › ".join(around[1:]),
                "at": f"{frame.line[0]}:{frame.line[1]}" if frame.line else "",
            }
        )
        around.append(frame.name)
    return Answer(
        text=section_of(reader, "flame").answer,
        rows=rows,
        known_from="torch's own timed phases, and a timer that assigns time to your lines",
        fields=("depth", "what", "seconds", "itself_seconds", "compilation", "phase", "within"),
        next=["phases", "compilations", "caches"],
    )


def _has_options(document: Document) -> bool:
    """Return whether a text is of settings, as torch wrote them."""
    titles = (ARTIFACT_TITLES["config"], ARTIFACT_TITLES["compile_options"])
    return document.title in titles or "settings" in document.title


def of_caches(reader: SessionReader) -> Answer:
    """Return the look-ups in torch's caches, the caches that were off and why, and what that of
    autotuning answered.
    """
    caches = caches_of_report(reader)
    looked_up = cache_answers(reader)
    off = caches_off(reader)
    rows: list[Json] = [
        {
            "cache": cache.cache,
            "outcome": "off",
            "reason": cache.reason,
            "option": cache.option,
            "compilations": list(cache.compilations),
        }
        for cache in off
    ]
    answers = caches["answers"]
    rows += answers if isinstance(answers, list) else []
    for answer in autotuning_answers(reader):
        if answer.outcome != FORCED_OFF:
            rows.append(
                {
                    "cache": AUTOTUNING,
                    "outcome": answer.outcome,
                    "compilation": answer.compilation,
                    "kernels": list(answer.kernels),
                }
            )
    if looked_up:
        outcomes = Counter(_OUTCOMES[answer.record.outcome] for answer in looked_up)
        how_many = listed([f"{count} {outcome}" for outcome, count in outcomes.items()])
        text = f"{counted(len(looked_up), 'look-up')} in torch's compile caches: {how_many}."
    else:
        text = "No look-up in a compile cache was recorded."
    return Answer(
        text=" ".join([text, *off_sentences(off), *bypass_sentences(looked_up)]),
        rows=rows,
        known_from="torch's own records of its caches, and its options during the compile",
        figures={"warm_start": caches["warm_start"]},
        next=["options --match cache --fields all"] if rows else [],
    )


_OUTCOMES = {"hit": "hit", "miss": "missed", "bypass": "bypassed"}
"""Outcome of a look-up → how it is told."""


def of_cuda_graphs(reader: SessionReader) -> Answer:
    graphs = cuda_graphs_of_report(reader)
    if graphs is None and is_log(reader):
        return Answer("This log says nothing of CUDA graphs.", known_from=_CUDA_GRAPHS)
    if graphs is None:
        return Answer("No CUDA graph was asked for.", known_from=_CUDA_GRAPHS)
    rows = graphs.pop("graphs")
    states = [graph.state for graph in cuda_graphs(reader).graphs]
    return Answer(
        text=f"CUDA graphs were asked for; torch.compile made {counted(len(states), 'graph')}.",
        rows=rows if isinstance(rows, list) else [],
        known_from=_CUDA_GRAPHS,
        figures=graphs,
    )


_CUDA_GRAPHS = "torch's own checks and records of CUDA graphs"


def of_failures(reader: SessionReader) -> Answer:
    failed = failures(reader)
    if is_log(reader):
        figures: Json = {"end_of_log": end_of_log(reader)}
    else:
        figures = {"outcome": reader.meta("outcome")}
    rows = [failure(explained) for explained in failed]
    raised = [row for row in distinct_breaks(reader) if row.registry_id == BACKEND_FAILED]
    rows += [_failed_backend(reader, row) for row in raised]
    if raised:
        what = listed([row.description for row in raised[:2]]).removeprefix("the ")
        text = (
            f"{counted(len(rows), 'failure')}. The {what}. torch made a graph break there, and "
            f"the program continued.{continues_after_errors(reader)}"
        )
    elif failed:
        text = f"{counted(len(failed), 'failure')}.{continues_after_errors(reader)}"
    elif is_log(reader):
        text = "No failed compilation is in the log; it says nothing of the program besides."
    else:
        text = "Nothing failed."
    return Answer(
        text=text,
        rows=rows,
        known_from="exceptions, as they were raised",
        fields=("compilation", "where", "stage", "kind", "message", "file", "line"),
        figures=figures,
        next=["failures --fields all --limit 1", "console"] if rows else ["console"],
    )


def _failed_backend(reader: SessionReader, graph_break: DistinctBreak) -> Json:
    """Return the row of an error of a backend that torch made a graph break of."""
    return {
        "compilation": listed(graph_break.compilations),
        "where": "compiler",
        "stage": "backend",
        "kind": "graph break",
        "message": graph_break.explanation,
        "file": graph_break.file,
        "line": graph_break.line,
        "traceback": reader.text(graph_break.text)[:MAX_TRACEBACK],
    }


def continues_after_errors(reader: SessionReader) -> str:
    """Return that torch was set to continue where compiling fails; empty where it was not, or where
    the session does not say it.
    """
    rows = reader.rows(model.OptionInForce, name="dynamo.suppress_errors", value="true")
    if not rows:
        return ""
    return (
        " torch._dynamo.config.suppress_errors is True: a function that cannot be compiled runs in "
        "eager mode, and the program continues."
    )


def of_child_processes(reader: SessionReader) -> Answer:
    processes = children(reader).everyone
    return Answer(
        text=f"{counted(len(processes), 'child process')} of the program.",
        rows=[child_process(process) for process in processes],
        known_from="the program's own calls that start processes",
    )


def of_variants(reader: SessionReader) -> Answer:
    rows = [other_variant(reader, variant) for variant in other_variants(reader)]
    return Answer(
        text=f"{counted(len(rows), 'other variant')} of compilations, made while stepping.",
        rows=rows,
        known_from="compilations that were continued with something changed",
    )


def of_front_ends(reader: SessionReader) -> Answer:
    rows = front_ends(reader)
    return Answer(
        text=f"{counted(len(rows), 'front end')} beside Dynamo (from --frontend).",
        rows=rows,
        known_from="each front end, run on the same target",
    )


def of_study(reader: SessionReader) -> Answer:
    rows = parts_as_json(parts_from_json(reader.meta(META) or []))
    return Answer(
        text=f"{counted(len(rows), 'part')} of a study (fx-explorer study makes one).",
        rows=rows,
        known_from="what each part printed at its end",
        next=["findings", "bench", "numerics", "ledger"] if rows else [],
    )


def of_memory_snapshot(reader: SessionReader) -> Answer:
    figures = figures_of(reader)
    if figures is None:
        return Answer("The session has no CUDA memory snapshot.", known_from=_SNAPSHOT)
    content = snapshot_object(reader, figures)
    return Answer("A CUDA memory snapshot.", known_from=_SNAPSHOT, figures=content)


_SNAPSHOT = "torch.cuda.memory._snapshot"


def of_documents(reader: SessionReader) -> Answer:
    """Return what ``code`` can show."""
    rows: list[Json] = [
        {
            "document": document.full_title,
            "number": text_number(document),
            "language": document.language,
            "lines": document.line_count,
        }
        for document in documents(reader)
    ]
    return Answer(
        text=f"{counted(len(rows), 'text')}: source files, graphs, and code that torch wrote.",
        rows=rows,
        known_from="texts that were recorded; source files as they were at the time of capture",
        next=["code NAME", "code NAME:LINE"],
    )


def of_section(reader: SessionReader, name: str) -> Answer:
    """Return a view of the app: its answer, and its rows by the titles of its columns."""
    section = section_of(reader, name)
    titles = [field_name(column.title) for column in section.columns]
    rows: list[Json] = []
    is_tree = any(row.depth for row in section.rows)
    for row in section.rows:
        cells: Json = {"depth": row.depth} if is_tree else {}
        for title, cell in zip(titles, row.cells, strict=True):
            if cell.bar is None:
                cells[title] = cell.text.strip().lstrip("▾▸ ")
        cells["at"] = place_text(reader, row.place)
        cells["detail"] = row.detail
        rows.append(cells)
    has_details = len(rows) == 1
    fields = () if has_details else ("depth", *titles, "at")
    return Answer(
        text=section.answer,
        rows=rows,
        known_from=section.origin,
        fields=fields,
        next=_NEXT.get(name, ()),
    )


_NEXT = {
    "modules": ("kernels", "memory"),
    "ledger": ("kernels", "guards"),
    "profile": ("kernels", "ledger"),
}
"""View → what to ask next."""


def field_name(title: str) -> str:
    """Return the title of a column as the name of a field: ``your line`` is ``your_line``."""
    if title == "#":
        return "number"
    words = title.replace("≈", "").replace("%", "percent").split()
    return "_".join(words)
