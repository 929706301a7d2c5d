"""These facts for the overview say which tensors a compiled graph copies from one device to another
in each call, and which would stay on the CPU where there is a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from fx_explorer import model
from fx_explorer.analysis.cuda_graphs import cuda_graphs
from fx_explorer.analysis.device_copies import DeviceCopy, Input, device_copies
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.facts import Fact, Severity
from fx_explorer.analysis.made_on_the_cpu import MadeOnTheCpu, made_on_the_cpu
from fx_explorer.analysis.words import counted, listed
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

SHOWN_AT_MOST = 5


def device_copy_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield a fact for each line that copies tensors between devices in each call."""
    by_line: dict[tuple[str, int, bool], list[DeviceCopy]] = {}
    for copy in device_copies(reader):
        by_line.setdefault((copy.file, copy.line, _is_on_the_cpu(copy.of)), []).append(copy)
    for copies in list(by_line.values())[:SHOWN_AT_MOST]:
        yield _fact(reader, copies)
    if len(by_line) > SHOWN_AT_MOST:
        more = counted(len(by_line) - SHOWN_AT_MOST, "more line")
        yield Fact("call", "problem", f"… and {more} that copy tensors between devices.")


def _is_on_the_cpu(device: str) -> bool:
    return device.startswith("cpu")


def _fact(reader: SessionReader, copies: Sequence[DeviceCopy]) -> Fact:
    first = copies[0]
    if first.file:
        where = in_file(first.file, first.line)
    else:
        where = "A line that torch does not name"
    tensors = f"{counted(len(copies), 'tensor')} ({listed(copy.tensor for copy in copies)})"
    text = f"{where} copies {tensors} from {_named(first.of)} to {_named(first.to)} in each call."
    made_of = dict.fromkeys(chain.from_iterable(copy.made_of for copy in copies))
    severity: Severity = "problem"
    details = [_code(reader, first)]
    if _is_on_the_cpu(first.of):
        details.append(_advice(list(made_of)))
        if made_of and all(taken.kind == "argument" for taken in made_of):
            severity = "notice"  # a batch that the caller has on the CPU must be copied once
    elif _is_on_the_cpu(first.to):
        details.append("The CPU waits for it, unless the copy is non_blocking.")
    detail = "\n".join(filter(None, details))
    if first.file:
        place = place_of_path(reader, first.file, first.line)
    else:
        place = None
    return Fact("call", severity, text, detail, place, "graphs")


def _named(device: str) -> str:
    if _is_on_the_cpu(device):
        return "the CPU"
    if device.partition(":")[0] in ("cuda", "xpu"):
        return "the GPU"
    return device


def _code(reader: SessionReader, copy: DeviceCopy) -> str:
    """Return the line of the program; empty where its text is not in the session."""
    for file in reader.rows(model.SourceFile, path=copy.file, limit=1):
        lines = reader.text(file.text).split("\n") if file.text else []
        if 0 < copy.line <= len(lines):
            return lines[copy.line - 1].strip()
    return ""


def _advice(made_of: Sequence[Input]) -> str:
    """Return the advice for a copy from the CPU to the GPU."""
    if not made_of:
        return "It is made on the CPU inside the graph: make it on the GPU (device=...)."
    named = [taken for taken in made_of if taken.name]
    computed = f"It is computed from {listed(taken.name for taken in named)} on the CPU: "
    if not named:
        computed = ""
    kinds = {taken.kind for taken in named}
    if "attribute" in kinds:
        what = _ATTRIBUTE
    elif "module" in kinds:
        what = "move the module to the GPU (.to)."
    elif "global" in kinds:
        what = _GLOBAL
    else:
        what = "pass it on the GPU, where the caller can have it there once for several calls."
    if computed:
        return computed + what
    return what[0].upper() + what[1:]


_ATTRIBUTE = (
    "make it on the GPU (device=...), or register it as a buffer of the module "
    "(self.register_buffer), which .to() moves."
)

_GLOBAL = (
    "make it on the GPU (device=...), or register it as a buffer of a module, which .to() moves."
)


def stays_on_the_cpu_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield, for a capture that put everything on a virtual GPU, which tensors would stay on the
    CPU on a machine with a real one.
    """
    record = reader.meta("virtual_gpu") or {}
    if record.get("feeding") != "transplant" and not record.get("puts_everything_there"):
        return
    made = made_on_the_cpu(reader)
    asks_for_graphs = bool(made and cuda_graphs(reader).asked)
    for tensor in made[:SHOWN_AT_MOST]:
        yield _stays(reader, tensor, asks_for_graphs=asks_for_graphs)
    if len(made) > SHOWN_AT_MOST:
        more = counted(len(made) - SHOWN_AT_MOST, "more tensor")
        yield Fact("run", "notice", f"… and {more} that would stay on the CPU.", view="source")


def _stays(reader: SessionReader, made: MadeOnTheCpu, *, asks_for_graphs: bool) -> Fact:
    text = (
        f"{in_file(made.file, made.line)} makes {made.input.name} on the CPU, where it stays when "
        "there is a GPU; here it is on the GPU with everything else."
    )
    if made.read_file:
        read = f" at {in_file(made.read_file, made.read_line)}"
    else:
        read = ""
    graphs = ", and outside of CUDA graphs" if asks_for_graphs else ""
    advice = _ATTRIBUTE if made.input.kind == "attribute" else _GLOBAL
    detail = (
        f"It is read{read}. On a GPU what is computed from it alone runs on the CPU, in C++ "
        f"kernels instead of the Triton ones shown, with a copy to the GPU in each call{graphs}: "
        f"{advice}"
    )
    place: Place | None = place_of_path(reader, made.file, made.line)
    return Fact("run", "notice", text, detail, place, "source")
