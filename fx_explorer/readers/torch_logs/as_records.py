"""A message of ``TORCH_LOGS`` as the record that torch's structured trace has of the same thing, for the same readers.

The texts are alike; what a message has before and around them is taken off.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from fx_explorer.readers.torch_logs.messages import Message
from fx_explorer.readers.torch_trace.records import Record
from fx_explorer.torch_texts import bounded

_GRAPH_HEADING = re.compile(r"^[^\S\n]*=+ (?P<name>.+?) =+$", re.M)

_CLASS = re.compile(r"^.*?(?=class \S+\(torch\.nn\.Module\):)", re.M)
"""What torch writes before the class of a graph: the path of the file that defines it."""

_REASON = re.compile(r"^[^\S\n]*- (?P<reason>\d+/\d+: .*)$", re.M)

_RECOMPILING = re.compile(
    r"Recompiling function (?P<function>\S{1,400}) in (?P<file>[^\n]{1,4000}):(?P<line>\d{1,8})"
)

_LIMIT = re.compile(
    r"torch\._dynamo hit config\.\w+ \(\d+\)\s*"
    r"function: '(?P<function>[^'\n]{1,400})' \((?P<file>[^\n]{1,4000}):(?P<line>\d{1,8})\)\s*"
    r"last reason: (?P<reason>[^\n]*)"
)
"""The warning of ``torch/_dynamo/convert_frame.py``, which needs no TORCH_LOGS."""

_GRAPHS = (
    (re.compile(r"joint graph", re.I), "aot_joint_graph"),
    (re.compile(r"backward graph", re.I), "aot_backward_graph"),
    (re.compile(r"forward graph", re.I), "aot_forward_graph"),
    (re.compile(r"after post ?grad|post_grad", re.I), "inductor_post_grad_graph"),
)


def as_records(message: Message, trained: set[str]) -> Iterator[Record]:
    """Yield the records of a message; none for one that has no record, which is kept as it is.

    ``trained`` has the compilations of which a joint graph was seen: the forward graph of any other is for inference.
    """
    text = message.text
    if message.artifact == "graph_breaks" and "Graph break" in text:
        yield _record(message, "dynamo_graph_break_reason", text)
    elif message.artifact in ("recompiles", "recompiles_verbose") and _REASON.search(text):
        reasons = [found["reason"].rstrip() for found in _REASON.finditer(text)]
        yield from _recompile(message, _RECOMPILING.search(bounded(text)), reasons)
    elif limit := _LIMIT.match(text):
        yield from _recompile(message, limit, [limit["reason"]])
        yield _metrics(message, text)
    elif message.artifact == "guards" and "TREE_GUARD_MANAGER" in text:
        yield _record(
            message, "dynamo_cpp_guards_str", text.replace("Guard eval latency", "Guard latency")
        )
    elif message.artifact == "output_code" and text.startswith("Output code:"):
        yield _record(message, "inductor_output_code", text.partition("\n")[2])
    elif text.startswith("skipping cudagraph"):
        yield replace(
            _record(message, "cudagraph_skip", ""),
            kind="cudagraph_skip",
            content={"cudagraph_skip_reason": text},
        )
    elif message.artifact in (
        "graph_code",
        "aot_graphs",
        "post_grad_graphs",
        "pre_grad_graphs",
    ) and _CLASS.search(text):
        yield from _graph(message, trained)


def _recompile(
    message: Message, function: re.Match[str] | None, reasons: list[str]
) -> Iterator[Record]:
    """Yield which function is compiled, where the message names it, and why it was compiled again."""
    if function:
        frame = {
            "name": function["function"],
            "filename": function["file"],
            "line": int(function["line"]),
        }
        begun = {"stack": [frame]}
        yield replace(_record(message, "", ""), kind="dynamo_start", content=begun)
    yield _record(message, "recompile_reasons", json.dumps(reasons))


def _metrics(message: Message, text: str) -> Record:
    """Return that a function was refused, as torch's metrics say it: it runs in eager mode from then on."""
    content = {"fail_type": "Unsupported", "fail_reason": text.partition("\n")[0]}
    return replace(_record(message, "", ""), kind="compilation_metrics", content=content)


def _graph(message: Message, trained: set[str]) -> Iterator[Record]:
    heading = _GRAPH_HEADING.search(message.text)
    name = heading["name"] if heading else ""
    code = _CLASS.sub("", message.text[heading.end() if heading else 0 :]).lstrip("\n")
    if message.artifact == "graph_code":
        yield _record(message, "dynamo_output_graph", code)
        return
    kind = next((kind for pattern, kind in _GRAPHS if pattern.search(name)), "")
    if kind == "aot_joint_graph":
        trained.add(message.compilation)
    if kind == "aot_forward_graph" and message.compilation not in trained:
        kind = "aot_inference_graph"
    if kind:
        yield _record(message, kind, code)


def _record(message: Message, name: str, payload: str) -> Record:
    return Record(
        "artifact",
        {"name": name},
        message.compilation,
        message.attempt,
        message.rank,
        message.seconds,
        payload,
        message.line,
    )
