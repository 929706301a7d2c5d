"""Writes docs/reference/answer-schema.json: the JSON Schema of the answers of ``fx-explorer ask``,
of the server for agents and of ``report --section``.

Rows that the JSON report has, too, are described by report-schema.json; here nothing is required,
since fields without a value are left out of an answer, and fields are chosen.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fx_explorer.answers.answer import SCHEMA
from fx_explorer.answers.questions import QUESTIONS

REFERENCE = Path(__file__).parent / "reference"
FILE = REFERENCE / "answer-schema.json"
REPORT = REFERENCE / "report-schema.json"

Json = dict[str, Any]

TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
FLAG: Json = {"type": "boolean"}
TEXTS: Json = {"type": "array", "items": TEXT}
OBJECT: Json = {"type": "object"}
OBJECTS: Json = {"type": "array", "items": OBJECT}


def described(kind: Json, description: str) -> Json:
    return {**kind, "description": description}


AT = described(TEXT, "file:line, or [compilation] graph or text:line")

OF_REPORT = {
    "findings": "findings",
    "breaks": "graph_breaks",
    "eager": "eager_functions",
    "recompiles": "recompiles",
    "sizes": "symbols",
    "stages": "stages",
    "memory": "saved_tensors",
    "options": "compile_options",
    "failures": "failures",
    "children": "child_processes",
    "variants": "variants",
    "front_ends": "front_ends",
    "study": "study",
}
"""Question → the list of the JSON report whose objects are its rows."""

KERNEL: Json = {
    "kernel": TEXT,
    "compilation": described(TEXT, "torch's name of the compilation: frame/recompile"),
    "direction": described(TEXT, "forward, backward, inference; absent where it has none"),
    "in_graph": described(
        TEXT, "the branch, loop or region it belongs to, with torch's name; absent for none"
    ),
    "language": described(
        TEXT, "triton, cpp, …; library call; conditional, loop or call of a region"
    ),
    "lines": described(TEXTS, "file:line of the user's source, most frequent first"),
    "modules": TEXTS,
    "computes": described(TEXTS, "the post-grad nodes that it computes"),
    "calls": described(COUNT, "how often the output code calls it"),
    "runs": described(
        COUNT,
        "how often it runs in one call: calls times those of the graph it is in; absent in "
        "branches and loops, where the data decides",
    ),
    "runs_graphs": described(TEXT, "of a conditional, loop or call of a region: what it runs"),
    "bytes": described(COUNT, "bytes that all of its calls read and write, by Inductor's count"),
    "seconds": described(NUMBER, "of all of its calls"),
    "seconds_are": described(TEXT, "in a profile, in a call, alone or estimated"),
    "compile_seconds": described(
        NUMBER, "seconds that Triton took to compile it; absent where the session does not say"
    ),
    "version": described(TEXT, "which version of its function it is of"),
    "code_lines": COUNT,
}

OPTION: Json = {
    "value": {
        "description": "in force; a list of those in force one after the other; for an option "
        "without in_force that when the capture began"
    },
    "is_changed": described(FLAG, "whether it is not the default; absent: not recorded"),
}

NODE: Json = {
    "name": TEXT,
    "user_name": described(TEXT, "the user's name of an input or parameter"),
    "op": described(TEXT, "FX opcode"),
    "target": TEXT,
    "arguments": TEXT,
    "value": described(TEXT, "dtype and shape of a tensor, or the text of another value"),
    "bytes": described(COUNT, "of a tensor without gaps whose sizes are numbers"),
    "stride": TEXTS,
    "device": TEXT,
    "at": AT,
    "module": TEXT,
    "module_type": TEXT,
    "annotations": OBJECT,
    "is_view": described(FLAG, "it computes nothing, so that no kernel can be expected"),
    "requires_grad": described(
        FLAG, "of a tensor in a Dynamo graph; in later graphs autograd is a part of the graph"
    ),
}

MADE_BY_CALL = described(
    COUNT, "which call of the function made it, from 1; absent where a call could not be counted"
)

ROWS: dict[str, Json] = {
    "overview": {
        "severity": described(TEXT, "problem, notice, changed, running or good"),
        "text": TEXT,
        "detail": TEXT,
        "cost": TEXT,
        "at": AT,
    },
    "calls": {
        "function": TEXT,
        "depth": described(COUNT, "0 for the first of a tree"),
        "file": TEXT,
        "line": COUNT,
        "called_at": described(COUNT, "the caller's line"),
        "compilations": TEXTS,
        "graphs": COUNT,
        "breaks": TEXTS,
        "runs_in_eager_mode": FLAG,
    },
    "compilations": {
        "compilation": TEXT,
        "function": TEXT,
        "file": TEXT,
        "line": COUNT,
        "status": TEXT,
        "error": TEXT,
        "backend": TEXT,
        "attempts": described(COUNT, "how often Dynamo began, with restarts"),
        "variant_of": TEXT,
        "restart_reasons": TEXTS,
        "operations": described(COUNT, "calls in Dynamo's graph"),
        "guards": COUNT,
        "kernels": COUNT,
        "made_by_call": MADE_BY_CALL,
        "calls": described(
            COUNT, "how often the program called what was compiled; absent: unknown"
        ),
        "calls_that_failed": described(
            TEXTS, "guards of earlier versions that a call failed, so that this was compiled"
        ),
        "compile_s": described(NUMBER, "seconds"),
        "seconds": described(OBJECT, "stage → seconds"),
        "missing_stages": OBJECT,
    },
    "guards": {
        "compilation": TEXT,
        "guards_on": described(TEXT, "the value, as the program calls it"),
        "must_stay": TEXT,
        "fails_when": TEXT,
        "why": TEXT,
        "asked_for_by": described(
            TEXT, "file:line, several joined by and; torch may cut off the beginning of a path"
        ),
        "remark": described(TEXT, "torch's remark on the guard: the code and function it is for"),
        "kind": described(TEXT, "torch's type of the guard"),
        "cost_ns": described(COUNT, "nanoseconds of one check"),
        "source": described(TEXT, "torch's expression for the value"),
        "code": described(TEXT, "what torch checks"),
    },
    "graphs": {
        "graph": TEXT,
        "number": described(COUNT, "what nodes and code take"),
        "stage": TEXT,
        "direction": TEXT,
        "nodes": COUNT,
        "calls": COUNT,
        "operations": described(OBJECT, "target → how often"),
        "in_use": FLAG,
    },
    "graph": {
        "depth": described(COUNT, "how many of the rows before it contain it"),
        "module": described(TEXT, "the module, or the layers: model.layers.0 … 47"),
        "node": described(TEXT, "a node that has a row of its own"),
        "is": described(TEXT, "module, layers, or operations: a module's own between others"),
        "nodes": described(COUNT, "all nodes below the row; rows of one depth share none"),
        "operations": described(COUNT, "those of the nodes that are no inputs or outputs"),
        "layers": described(COUNT, "how many layers the row stands for"),
        "differ": described(TEXT, "alike, or how layers differ from most, by their names"),
        "class": TEXT,
        "parameters": described(COUNT, "parameters and buffers that it alone uses"),
        "parameter_bytes": COUNT,
        "seconds": described(NUMBER, "time in the profile"),
        "most_frequent": described(TEXT, "its most frequent operations"),
        "target": TEXT,
        "value": TEXT,
    },
    "nodes": NODE,
    "node": {
        "graph": TEXT,
        "number": described(COUNT, "of the graph"),
        **NODE,
        "lines": described(TEXTS, "file:line; of a node that a pass made of several, of each"),
        "takes": described(TEXTS, "nodes of the same graph"),
        "used_by": described(TEXTS, "nodes of the same graph"),
        "stack": described(TEXTS, "the lines of the user's stack, outermost first"),
        "passes": described(TEXTS, "which operator it is a part of, what passes did with it"),
        "why": described(TEXTS, "what was decided about its operations, as why has it"),
        "saved": described(TEXT, "that it is saved for the backward, and which kernels read it"),
        "value_facts": described(TEXTS, "what AOTAutograd knows of it as an input or output"),
        "collective": described(TEXT, "of a collective or its wait: group, bytes, what runs"),
        "region": described(
            TEXT, "of a call of a nested region: how often it is reused, and why not"
        ),
        "meta": {
            **OBJECT,
            "additionalProperties": TEXT,
            "description": "each key of node.meta; (…) where this answer has the value",
        },
        "decomposition": {
            "type": "object",
            "properties": {
                "operator": described(TEXT, "the operator that was called"),
                "function": described(TEXT, "of torch's, which made the node"),
                "file": TEXT,
                "line": COUNT,
                "source": TEXT,
            },
            "additionalProperties": False,
        },
        "comes_from": described(TEXTS, "nodes of the stage before, with how that is known"),
        "became": described(TEXTS, "nodes of the next stage, with how that is known"),
        "kernels": TEXTS,
    },
    "line": {
        "what": described(
            TEXT,
            "graph break, recompile, kernel, tensor saved for the backward, guard, pass or nodes",
        ),
        "text": TEXT,
        "name": TEXT,
        "compilation": TEXT,
        "compilations": TEXTS,
        "direction": TEXT,
        "language": TEXT,
        "computes_of_this_line": described(TEXTS, "nodes of the first of the compilations"),
        "share": described(NUMBER, "0 to 1, of share_of"),
        "share_of": TEXT,
        "value": TEXT,
        "bytes": COUNT,
        "needed_by": TEXTS,
        "read_by": described(OBJECTS, "kernels of the backward that read a saved tensor"),
        "fails_when": TEXT,
        "graph": described(TEXT, "that the pass changed"),
        "changes": described(TEXTS, "what the pass did with nodes: removed full"),
        "number": described(COUNT, "of the graph"),
        "count": COUNT,
        "nodes": TEXTS,
    },
    "lines": {
        "at": AT,
        "function": described(TEXT, "qualified name of the function that has the line"),
        "code": described(TEXT, "the statement; of if, for and with what heads it"),
        "runs": described(
            TEXT,
            "in graphs; eager; in graphs and eager; while compiling: Dynamo evaluated it, without "
            "an operation; not traced; not recorded",
        ),
        "operations": described(
            COUNT, "of Dynamo's graphs whose stack passes through the line, in all compilations"
        ),
        "targets": described(OBJECT, "what they call → how often"),
        "graphs": described(TEXTS, "Dynamo's graphs that have them"),
        "kernels": described(TEXTS, "those that compute something of them, forward and backward"),
        "why": described(TEXT, "why it is eager, in no graph, or in no kernel"),
    },
    "nested": {
        "name": described(TEXT, "the function of a region, else torch's name of the graph"),
        "run_by": described(TEXT, "invoke_subgraph, cond, while_loop, …"),
        "compilation": TEXT,
        "direction": TEXT,
        "called_from": described(TEXTS, "file:line of the calls"),
        "calls": described(COUNT, "nodes that run it in the graph around it"),
        "runs": described(TEXT, "how often it runs in one call of the compiled code"),
        "calls_of_compiled_code": described(COUNT, "how often the program called that"),
        "operations": COUNT,
        "lines": described(TEXTS, "file:line of its operations"),
        "kernels": described(TEXTS, "of the forward; also where torch put it into another graph"),
        "backward_kernels": TEXTS,
        "graph_numbers": {"type": "array", "items": COUNT, "description": "as graph takes them"},
        "traced": described(COUNT, "calls of a region for which Dynamo traced it"),
        "reused": described(COUNT, "calls for which an earlier trace was used"),
        "compiled": described(COUNT, "graphs that were compiled for it"),
        "inlined": described(COUNT, "calls that torch replaced by its operations"),
        "remark": described(TEXT, "the same in a sentence, and why it was traced again"),
    },
    "kernels": KERNEL,
    "kernel": {
        **KERNEL,
        "code_at": AT,
        "configurations": OBJECTS,
        "why": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"about": TEXT, "sentence": TEXT, "may_change_it": TEXT},
                "additionalProperties": False,
            },
        },
        "loop_nests": described(
            OBJECTS, "of a C++ kernel with several: lines, loops, why they were not merged"
        ),
        "reads_saved": described(TEXTS, "tensors saved by the forward that it reads"),
        "not_fused_with": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "kernel": TEXT,
                    "is": described(TEXT, "before it or after it"),
                    "why": TEXT,
                    "saved_bytes": COUNT,
                },
                "additionalProperties": False,
            },
        },
        "launches": OBJECTS,
        "estimate": OBJECT,
        "code": TEXT,
    },
    "code": {
        "line": COUNT,
        "text": TEXT,
        "document": TEXT,
        "number": described(TEXT, "what code takes in place of a name"),
        "language": TEXT,
        "lines": COUNT,
    },
    "find": {
        "what": described(TEXT, "break, kernel, node, line, input or graph"),
        "text": TEXT,
        "detail": TEXT,
        "at": AT,
    },
    "caches": {
        "cache": described(TEXT, "fx_graph, aotautograd or autotune"),
        "outcome": described(TEXT, "hit, miss, bypass or off; of autotuning, torch's own word"),
        "compilation": described(TEXT, "whose look-up it is"),
        "reason": described(TEXT, "why it was bypassed or off"),
        "torch_says": described(TEXT, "of a bypass: torch's own words"),
        "option": described(TEXT, "the option that turned it off"),
        "compilations": described(TEXTS, "of a cache that was off: those of which torch says so"),
        "kernels": described(TEXTS, "those for which that of autotuning was asked"),
        "key": TEXT,
        "saved_s": described(NUMBER, "of a hit: what it saved, as torch reckons"),
    },
    "why": {
        "kernel": TEXT,
        "node": described(TEXT, "the post-grad node that was lowered; of attention, Dynamo's"),
        "direction": TEXT,
        "modules": described(TEXTS, "modules of these operations"),
        "line": AT,
        "about": described(
            TEXT,
            "attention, library call, layout, reduction, tiles, vectors or threads; of a log: "
            "candidates that the autotuner timed",
        ),
        "why": described(TEXT, "in a few words"),
        "sentence": TEXT,
        "may_change_it": TEXT,
        "inductor_says": described(TEXT, "the condition in Inductor's source"),
        "decided_in": described(TEXT, "function of torch, with its line"),
        "numbers": {"type": "object"},
        "texts": {"type": "object"},
        "times": described(COUNT, "how often the same was decided"),
    },
    "fusion": {
        "first": described(TEXT, "the kernel that runs first"),
        "second": described(TEXT, "of a log, Inductor's names of the scheduler's nodes"),
        "in_one_kernel": described(FLAG, "two loop nests of one C++ kernel"),
        "first_loops_are": described(TEXT, "Inductor's name of a loop nest in one kernel"),
        "second_loops_are": TEXT,
        "direction": TEXT,
        "compilation": described(TEXT, "of a log"),
        "graph": described(COUNT, "of a log: which of the compilation's graphs, from 1"),
        "first_line": AT,
        "second_line": AT,
        "first_lines": TEXTS,
        "second_lines": TEXTS,
        "first_is": described(TEXT, "of a log: kind, loops and FX nodes, as torch printed them"),
        "second_is": TEXT,
        "at": AT,
        "why": described(TEXT, "in two words"),
        "sentence": TEXT,
        "inductor_says": described(TEXT, "its own words, as TORCH_LOGS=fusion has them"),
        "check": described(TEXT, "the function or option of Inductor that refused"),
        "names": described(TEXTS, "the scheduler's nodes that it was asked about"),
        "state": described(TEXT, "refused, not asked, allowed or outer loop"),
        "is_dependent": described(FLAG, "the second reads what the first writes"),
        "is_exact": described(FLAG, "false: Inductor was asked about parts of them"),
        "saved_bytes": described(COUNT, "that one kernel would not write and read"),
        "saved_seconds": described(NUMBER, "estimate from the data sheet of the GPU"),
        "buffers": TEXTS,
        "first_loops": TEXT,
        "second_loops": TEXT,
        "may_change_it": TEXT,
        "times": COUNT,
    },
    "passes": {
        "graph": TEXT,
        "pass": described(TEXT, "stage: outer pass › pass, pattern"),
        "pattern": TEXT,
        "did": described(TEXT, "made, removed or changed"),
        "node": TEXT,
        "before": TEXT,
        "after": TEXT,
        "replaced": described(TEXTS, "made: in whose place; removed: what is used in its place"),
        "in_graph": described(FLAG, "whether the graph after all passes has the node"),
        "lines": described(TEXTS, "file:line of the node and of those it replaced"),
    },
    "patterns": {
        "patterns": described(TEXTS, "names of those that failed for this reason"),
        "node": described(TEXT, "at which the last operator was looked for; empty without one"),
        "matched": described(COUNT, "nodes that matched until the check failed"),
        "alike": described(COUNT, "nodes that are there if what differs is passed over"),
        "size": described(COUNT, "nodes of the pattern"),
        "check": described(TEXT, "operator, inputs, users, value, check …: what failed"),
        "sentence": TEXT,
        "expected": described(TEXT, "what the pattern has there, or the check"),
        "found": described(TEXT, "what the graph has, or the values in the check"),
        "at": described(TEXT, "the node that the check failed at"),
        "input_of": described(TEXT, "the node that has it as an input"),
        "line": described(TEXT, "the user's line"),
        "pass": described(TEXT, "stage: outer pass › pass"),
        "compilation": TEXT,
        "direction": TEXT,
        "matched_nodes": TEXTS,
        "with_shapes": described(FLAG, "it failed with the shapes and numbers of the program"),
        "check_at": described(TEXT, "file:line that refused"),
        "written_at": described(TEXT, "file:line of the pattern"),
        "is_users": described(FLAG, "whether it is not one of torch's patterns"),
        "torch_says": described(TEXT, "torch's FailedMatch"),
    },
    "trace": {
        "depth": described(COUNT, "0 for a compilation; calls and lines inside it are deeper"),
        "what": described(
            TEXT,
            "compilation, line, inlined call, runs in eager mode, resume function; of a line: line, "
            "step",
        ),
        "compilation": TEXT,
        "name": described(TEXT, "function, or the code that runs in eager mode"),
        "function": TEXT,
        "module": TEXT,
        "file": TEXT,
        "line": COUNT,
        "times": described(COUNT, "how often Dynamo traced the line or the call"),
        "nodes": described(COUNT, "added here and in the calls inside"),
        "guards": described(COUNT, "added here and in the calls inside"),
        "node_names": described(TEXTS, "nodes added at the line or step itself"),
        "guards_added": TEXTS,
        "events": TEXTS,
        "event": described(TEXT, "a graph break, an exception, a restart"),
        "inlined": described(TEXTS, "functions inlined at the line"),
        "inlined_into": described(TEXTS, "callers with their lines, innermost first"),
        "attempts": described(COUNT, "how often Dynamo traced the function"),
        "attempt": COUNT,
        "started_over": described(TEXTS, "why attempts were discarded"),
        "is_discarded": FLAG,
        "ended": described(TEXT, "traced, restarted, failed"),
        "reason": TEXT,
        "traced_as": described(TEXT, "compilation of the resume function"),
        "steps": COUNT,
        "steps_left_out": described(COUNT, "beyond the limit of a session"),
        "step": described(COUNT, "from 1, within the attempt"),
        "instruction": described(TEXT, "with --record-trace"),
        "stack": described(TEXTS, "symbolic stack before the instruction, the top first"),
        "locals": described(OBJECT, "variables: all at first, then those that changed"),
    },
    "side_effects": {
        "compilation": TEXT,
        "function": TEXT,
        "changed": described(TEXT, "the object or attributes, as the program calls them"),
        "attributes": TEXTS,
        "type": TEXT,
        "code": described(TEXT, "the source of the line"),
        "how": TEXT,
        "source": described(TEXT, "torch's expression for the object"),
        "file": TEXT,
        "line": COUNT,
    },
    "values": {
        "value": described(TEXT, "input x, buffer norm.running_mean, output 1 of the graph"),
        "how": described(TEXT, "in a few words"),
        "of": described(TEXT, "the value that it is a view of, or overlaps"),
        "node": described(TEXT, "of the graph: what the input or output is called there"),
        "code": described(TEXT, "the user's line that makes or writes it"),
        "sentence": TEXT,
        "kind": described(TEXT, "torch's own word: OutputType, MutationType; or subclass"),
        "copied_bytes": described(COUNT, "read and written after each call; -1: not known"),
        "compilation": TEXT,
        "function": TEXT,
        "file": TEXT,
        "line": COUNT,
    },
    "collectives": {
        "compilation": TEXT,
        "direction": TEXT,
        "order": described(COUNT, "among the collectives of its graph, from 1"),
        "operator": TEXT,
        "node": described(TEXT, "of the graph after Inductor's passes, where there is one"),
        "group": described(TEXT, "torch's name of the process group"),
        "group_description": TEXT,
        "group_size": described(COUNT, "number of ranks"),
        "bytes": described(COUNT, "of the larger one of its input and result, on one rank"),
        "waited_for_by": described(TEXT, "the node that waits for it"),
        "meanwhile": described(TEXTS, "kernels, or operators, between its start and the wait"),
        "meanwhile_from": described(TEXT, "generated code, or graph where there is none"),
        "redistributes": described(TEXT, "placements of a DTensor before and after"),
        "mesh": TEXT,
        "sentence": TEXT,
        "file": TEXT,
        "line": COUNT,
    },
    "phases": {
        "compilation": TEXT,
        "function": TEXT,
        "direction": described(TEXT, "forward: Dynamo and what it caused; or backward"),
        "phase": described(TEXT, "in words"),
        "seconds": NUMBER,
        "torch_name": described(TEXT, "the metric or timed phase of torch's that has the number"),
        "timed_as": described(TEXT, "name of the timed phase (dynamo_timed)"),
        "holds": described(TEXT, "what is counted"),
        "recorded_in": described(
            TEXT, "compilation_metrics, bwd_compilation_metrics or timed phases"
        ),
    },
    "flame": {
        "depth": COUNT,
        "what": TEXT,
        "seconds": NUMBER,
        "itself_seconds": described(NUMBER, "outside of the phases inside it"),
        "share": described(NUMBER, "0 to 1, of all compile time"),
        "compilation": TEXT,
        "phase": described(TEXT, "torch's own name"),
        "began_s": described(NUMBER, "seconds after the capture began"),
        "within": described(TEXT, "the phases around it, outermost first"),
        "at": AT,
    },
    "step_memory": {
        "kind": TEXT,
        "name": TEXT,
        "bytes": COUNT,
        "kernel": TEXT,
        "file": TEXT,
        "line": COUNT,
        "module": TEXT,
    },
    "diff": {
        "what": described(
            TEXT, "figure, source line, operator, only before, only after, option or kernel"
        ),
        "name": TEXT,
        "before": TEXT,
        "after": TEXT,
        "change": TEXT,
        "text": TEXT,
        "at": AT,
        "times": COUNT,
        "compilation": TEXT,
        "direction": TEXT,
        "computes": TEXTS,
        "changed_lines": described(TEXTS, "of the code of a kernel: - before, + after"),
    },
}
"""Question → the fields of its rows."""

REQUIRED = (
    "$defs", "properties", "items", "type", "enum", "const", "description", "anyOf", "oneOf",
    "additionalProperties", "$ref",
)  # fmt: skip
"""Keywords that are taken from the schema of the report: nothing is required in an answer."""


def loosened(schema: Any) -> Any:
    """Return a schema in which any field may be missing, and lists and texts may be shortened."""
    if isinstance(schema, list):
        return [loosened(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {}
    for name, value in schema.items():
        if name == "properties":
            kept[name] = {field: loosened(each) for field, each in value.items()}
        elif name in REQUIRED:
            kept[name] = loosened(value)
    return kept


def schema() -> Json:
    report = json.loads(REPORT.read_text(encoding="utf-8"))
    of_questions: Json = {}
    for question in QUESTIONS:
        rows = _rows(question.name, report)
        does = f"{question.usage}: {question.does}"
        of_questions[question.name] = {"description": does, **rows}
    rules = [
        {
            "if": {"properties": {"question": {"pattern": rf"^{name}( |$)"}}},
            "then": {"properties": {"rows": {"items": {"$ref": f"#/$defs/{name}"}}}},
        }
        for name in of_questions
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An answer of fx-explorer ask",
        "description": "Fields without a value are left out: that means unknown or none, not 0.",
        "type": "object",
        "required": ["schema", "question", "session", "ended", "answer", "rows"],
        "properties": {
            "schema": {"const": SCHEMA},
            "question": described(TEXT, "the question, and what it is about"),
            "session": described(TEXT, "the file that was asked"),
            "program": described(TEXT, "what was captured"),
            "torch": TEXT,
            "device": TEXT,
            "ended": described(TEXT, "how the program ended: finished, failed, …"),
            "answer": described(TEXT, "the answer in a sentence"),
            "known_from": described(TEXT, "what recorded or computed the rows"),
            "figures": described(OBJECT, "figures of the whole"),
            "count": described(COUNT, "how many rows there are; absent where it is not known"),
            "more_fields": described(TEXTS, "fields of these rows that --fields would add"),
            "next": described(TEXTS, "further questions about the session"),
            "left_out": described(TEXTS, "what the answer does not have, and how to ask for it"),
            "rows": {"type": "array", "items": OBJECT},
        },
        "additionalProperties": False,
        "allOf": rules,
        "$defs": of_questions,
    }


def _rows(name: str, report: Json) -> Json:
    """Return the schema of a row. The rows of a view have a text for each of its columns."""
    if name in ROWS:
        return {"type": "object", "properties": ROWS[name], "additionalProperties": False}
    if name in OF_REPORT:
        row: Json = loosened(report["properties"][OF_REPORT[name]]["items"])
        if name == "recompiles":
            refused = described(FLAG, "at the recompile limit: it was not compiled")
            row["properties"]["is_refused"] = refused
            row["properties"]["made_by_call"] = MADE_BY_CALL
            row["properties"]["torch_named"] = described(
                TEXTS, "torch's own list for the call: version and guard, the newest version first"
            )
        if name == "memory":
            row["properties"]["code"] = described(TEXT, "the text of the line")
        if name == "breaks":
            row["properties"]["order"] = described(
                COUNT, "from 1, in which Dynamo first met them; rows are the costliest first"
            )
            row["properties"]["callers"] = described(
                TEXTS, "file:line in function, the nearest first; in torch or a library, too"
            )
        if name == "options":
            row["properties"] |= OPTION
        return row
    if name == "cuda_graphs":
        return _of_list(report["properties"][name]["properties"]["graphs"]["items"])
    properties = {"depth": described(COUNT, "in a tree: 0 for the outermost")}
    return {"type": "object", "properties": properties, "additionalProperties": TEXT}


def _of_list(items: Any) -> Json:
    row: Json = loosened(items)
    return row


def main(path: Path) -> None:
    path.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FILE)
