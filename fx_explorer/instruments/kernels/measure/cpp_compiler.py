"""This module is a process like the worker that says how Inductor calls the C++ compiler, and ends.

Its first line of input is the folder that the kernel's source is in, ``kernel.cpp``. It answers
with one ``BenchAnswer``: the command line as JSON, or why there is none.
"""

from __future__ import annotations

import json
import os
import shlex

from fx_explorer.model import BenchAnswer

_LINKS = ("-l", "-L", "-Wl,")
"""Beginnings of options that are for linking."""


def main(notices: int, commands: int) -> None:
    with os.fdopen(commands, encoding="utf-8") as lines:
        folder = lines.readline().strip()
    try:
        answer = BenchAnswer(json.dumps(command_line(folder)))
    # A release without these names, or a machine without a compiler: the user is told.
    except Exception as error:  # noqa: BLE001
        answer = BenchAnswer(f"{type(error).__name__}: {error}", refused=True)
    os.write(notices, answer.to_json().encode() + b"\n")
    os._exit(0)


def command_line(folder: str) -> list[str]:
    """Return Inductor's own command for a kernel (torch/_inductor/cpp_builder.py), without linking,
    and with debug information, which does not change the code.
    """
    from fx_explorer.capture.torch_compat.private_names import cpp_builder, cpu_vec_isa

    options = cpp_builder.CppTorchOptions(vec_isa=cpu_vec_isa.pick_vec_isa())
    builder = cpp_builder.CppBuilder(
        name="kernel", sources=f"{folder}/kernel.cpp", output_dir=folder, BuildOption=options
    )
    words = shlex.split(builder.get_command_line())
    kept = [word for word in words if not word.startswith(_LINKS) and word != "-shared"]
    kept[kept.index("-o") + 1] = f"{folder}/kernel.o"
    return [*kept, "-c", "-g"]
