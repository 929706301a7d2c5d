"""Where compile time went, as a flame chart in SVG."""

from __future__ import annotations

from fx_explorer.analysis.flame import FlameFrame
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import careful_share
from fx_explorer.drawing.flame_svg import FlamePicture, flame_picture_svg
from fx_explorer.instruments.compile_time.frames import KINDS_IN_WORDS, CompileTime
from fx_explorer.session.file_names import in_file

COLOURS: dict[str, str] = {
    "call": "#b4bac6",
    "thread": "#c3c8d2",
    "function": "#d2d6de",
    "dynamo": "#84b1e2",
    "pre_grad": "#cbb8e8",
    "joint": "#b49be0",
    "forward": "#ddcdf4",
    "backward": "#c4aee9",
    "backend": "#f19cb4",
    "post_grad": "#45b3a4",
    "schedule": "#93d36f",
    "output_code": "#62c298",
    "kernel": "#fbaa5f",
    "other": "#f4f1e6",
    "module": "#ffca93",
    "line": "#efd25c",
}
"""Kind of a frame → its colour; dark letters can be read on each of them."""


def compile_svg(whole: CompileTime, root: FlameFrame) -> str:
    """Return the picture of one frame of the whole, with all that lies within it."""
    kinds = {frame.kind for frame in root.frames()}

    def about(frame: FlameFrame) -> list[str]:
        part = whole.parts[frame.steps.start]
        parts = [
            frame.name,
            f"{run_time(frame.duration_s)}, "
            f"{careful_share(frame.duration_s, whole.root.duration_s)} of all; "
            f"{run_time(frame.self_s)} by itself",
            KINDS_IN_WORDS[frame.kind],
        ]
        parts += [f"torch calls it {part.span.name}"] if part.span else []
        return [*parts, in_file(*frame.line)] if frame.line else parts

    title = (
        f"{root.name}: {run_time(root.duration_s)} of {run_time(whole.root.duration_s)} that "
        "compiling took."
    )
    legend = {kind: words for kind, words in KINDS_IN_WORDS.items() if kind in kinds}
    return flame_picture_svg(FlamePicture(root, [title], about, COLOURS, legend))
