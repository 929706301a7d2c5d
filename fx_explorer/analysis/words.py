"""This module writes counts, durations, sizes, shapes and nodes, so that every view writes them
alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from fx_explorer import model

IRREGULAR = {
    "recompile because": "recompiles because",
    "library": "libraries",
    "entry": "entries",
    "more entry": "more entries",
    "copy": "copies",
    "pass": "passes",
    "other pass": "other passes",
    "remedy": "remedies",
    "fix": "fixes",
    "call of a region": "calls of regions",
    "call of a graph": "calls of graphs",
    "child process": "child processes",
    "size or number": "sizes or numbers",
    "view or selection": "views and selections",
    "output of a call": "outputs of calls",
}

LONGEST_KERNEL_NAME = 48


def counted(number: int, noun: str) -> str:
    """Return ``1 graph``, ``2 graphs`` or ``1,024 nodes``."""
    return f"{number:,} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """Return the noun alone in the form for the number: ``graph`` for 1, else ``graphs``."""
    if number == 1:
        return noun
    return IRREGULAR.get(noun, noun + "s")


def language_name(language: str) -> str:
    """Return the name of a kernel's language, as its users write it: ``C++`` for ``cpp``."""
    return {"cpp": "C++", "triton": "Triton", "python": "Python"}.get(language, language)


def how_often(times: int) -> str:
    """Return ``once``, ``twice`` or ``3 times``."""
    return {1: "once", 2: "twice"}.get(times, f"{times:,} times")


def breaks_hit(places: int, hits: int, noun: str = "graph break") -> str:
    """Return ``1 graph break, hit 4 times``: a break is a place, however often it was hit. If each
    was hit once, ``2 graph breaks``.
    """
    text = counted(places, noun)
    if hits > places:
        text += f", hit {counted(hits, 'time')}"
    return text


def seconds(duration_s: float) -> str:
    """Return ``0.4 ms``, ``32 ms``, ``0.43 s``, ``12.3 s`` or ``2 min 5 s``."""
    if duration_s < 0.001:
        return f"{duration_s * 1000:.1f} ms"
    if duration_s < 0.1:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 10:
        return f"{duration_s:.2f} s"
    if duration_s < 100:
        return f"{duration_s:.1f} s"
    return f"{int(duration_s) // 60} min {int(duration_s) % 60} s"


def size(size_bytes: int) -> str:
    """Return ``512 B`` or ``1.2 MB``: decimal units, as torch's memory views use them."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    for scale, unit in ((1e3, "kB"), (1e6, "MB"), (1e9, "GB")):
        if size_bytes < 1000 * scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes / 1e12:.1f} TB"


def tensor(dtype: str, shape: Sequence[str] | None) -> str:
    """Return ``f32[4, 64]``; empty for a value that is not a tensor."""
    if shape is None:
        return ""
    return f"{dtype}[{', '.join(shape)}]"


_INSTALLED = ("site-packages", "dist-packages")


def module_file(path: str) -> str:
    """Return ``transformers/models/gpt2/modeling_gpt2.py`` for a file of an installed package; any
    other path unchanged.
    """
    parts = path.replace("\\", "/").split("/")
    last = max((at for at, part in enumerate(parts) if part in _INSTALLED), default=-1)
    return "/".join(parts[last + 1 :]) if last >= 0 else path


def listed(parts: Iterable[str], limit: int = 3) -> str:
    """Return ``a, b and c``, or ``a, b, c and 4 more``."""
    items = list(parts)
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit:,} more"
    all_but_last = ", ".join(items[:-1])
    return " and ".join(part for part in (all_but_last, *items[-1:]) if part)


def share(part: float, whole: float) -> str:
    """Return ``38 %``; ``0 %`` for a whole of 0."""
    percent = 100 * part / whole if whole else 0
    return f"{percent:.0f} %"


def careful_share(part: float, whole: float) -> str:
    """Return ``38 %``, and never 0 % for something or 100 % for less than all: ``<1 %``,
    ``>99 %``.
    """
    rounded = share(part, whole)
    if 0 < part < whole and rounded in ("0 %", "100 %"):
        return "<1 %" if rounded == "0 %" else ">99 %"
    return rounded


def annotation_text(value: object) -> str:
    """Return the name of an annotation: a text unchanged, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


LONGEST_SENTENCE = 200

_PLACE_ALONE = re.compile(r"\bat \d+:\d+:$")


def compile_error(text: str) -> str:
    """Return the line of a compile error with the problem. Triton begins with the place alone
    (``CompilationError: at 4:20:``) and ends with the reason. For an error in a helper there is a
    second place, which counts.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    places = [line for line in lines[:-1] if _PLACE_ALONE.search(line)]
    if not places or places[0] != lines[0]:
        return first_line(text)
    name = lines[0].partition(": ")[0]
    return first_line(f"{name}: {places[-1].removeprefix(f'{name}: ')} {lines[-1]}")


def first_line(text: str) -> str:
    """Return the first line that is not empty, cut to a readable length."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) <= LONGEST_SENTENCE:
        return line
    return line[: LONGEST_SENTENCE - 1].rstrip() + "…"


def bar(part: float, whole: float, cells: int) -> str:
    """Return a horizontal bar of lines, drawn to half a cell. Bars of lines in neighbouring rows
    stay apart.
    """
    halves = round(2 * cells * min(1.0, part / whole)) if whole else 0
    return "━" * (halves // 2) + "╸" * (halves % 2)


def short_kernel_name(kernel: str) -> str:
    """Return a kernel's name without its types: libraries' kernels are templates of C++."""
    without_types = kernel.removeprefix("void ").partition("<")[0].partition("(")[0]
    plain = without_types.rpartition("::")[2].strip() or kernel
    if len(plain) <= LONGEST_KERNEL_NAME:
        return plain
    return f"{plain[:LONGEST_KERNEL_NAME]}…"


def operation(node: model.Node) -> str:
    """Return the operation of a node: its target, or its opcode if the target only repeats the
    name.
    """
    if node.op in ("placeholder", "output"):
        return node.op
    if node.op == "get_attr":
        return f"get_attr {node.target}"
    return node.target.removesuffix(".default")


def value_text(node: model.Node) -> str:
    """Return ``f32[4, 64]``, ``TwoTensor(a: f32[4], b: f32[4])``, or the text of a value that is
    not a tensor.
    """
    return node.value or tensor(node.dtype, node.shape)


def format_node(node: model.Node) -> str:
    """Return ``gelu = aten.gelu(addmm)  f32[4, 8]``."""
    if node.op == "placeholder":
        text = f"placeholder {node.name}"
    elif node.op == "output":
        text = f"output {node.arguments}"
    else:
        text = f"{node.name} = {operation(node)}({node.arguments})"
    return f"{text}  {value_text(node)}".rstrip()
