"""This module sets up a capture for a virtual GPU, and describes how it is emulated
(device_queries.py).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.capture.virtual_gpu.cache_directories import not_written
from fx_explorer.capture.virtual_gpu.device_queries import IN_WORDS, Emulation
from fx_explorer.capture.virtual_gpu.installing import before_torch, install, other_triton
from fx_explorer.capture.virtual_gpu.not_possible import insists_on_gpu, needs_fake, not_possible
from fx_explorer.model import Gpu

if TYPE_CHECKING:
    from fx_explorer.worker.progress import RequestProgress


class VirtualGpu:
    """Carries out the steps for a request's virtual GPU, at the right moments."""

    def __init__(self, gpu: Gpu, progress: RequestProgress) -> None:
        self._gpu = gpu
        self._progress = progress
        self._emulation: Emulation | None = None
        self._told = ""
        self._warning = ""

    def before_torch(self) -> None:
        """Prepare, before torch is imported. Raises WorkerError when something that the GPU needs
        is missing.
        """
        self._progress.say(f"setting up a virtual {self._gpu.title}")
        before_torch(self._gpu)

    def install(self) -> None:
        """Install the GPU, after torch and before its compiler is imported. Raises WorkerError."""
        self._emulation = install(self._gpu)
        self._warning = other_triton()
        if self._warning:
            self._progress.note(self._warning)
        self._emulation.on_change = self._record
        self._choose(self._emulation)
        self._record(self._emulation)

    def _choose(self, emulation: Emulation) -> None:
        file, request = self._progress.place.file, self._progress.request
        if request.no_weights:
            everything = "without weights (--no-weights)"
        else:
            everything = needs_fake(file, request.train)
        if everything:
            from fx_explorer.capture.virtual_gpu.fake_cuda_tensors import without_weights

            without_weights(emulation, everything)
        elif reason := insists_on_gpu(file):
            emulation.become_fake(reason)

    def finish(self) -> None:
        """After the program has run, record the choices that needed the device, and the questions
        about devices in the program's files. Report the placeholders that it was given.
        """
        if self._emulation and self._emulation.placeholders:
            first, *others = self._emulation.placeholders
            also = ", as do others" if others else ""
            self._progress.note(
                f"{Path(first.file).name}:{first.line} reads a number from a tensor without "
                f"content{also}: {first.value} is a placeholder, and so is anything the program "
                "prints or decides from it"
            )
        if self._emulation and self._emulation.unsaved:
            (file, line), *_ = self._emulation.unsaved
            self._progress.note(
                f"{Path(file).name}:{line} saves tensors without content: nothing was written"
            )
        if self._emulation and self._emulation.choices:
            self._progress.writer.set_meta("virtual_gpu_choices", self._emulation.choices)
        if self._emulation and self._emulation.mode == "transplant":
            from fx_explorer.capture.virtual_gpu.device_queries import read_users_files

            read_users_files(self._emulation)
            for question in list(self._emulation.questions)[:1]:
                text = (
                    f"{Path(question.file).name}:{question.line} checks {question.what}, which is "
                    "different on the GPU"
                )
                self._progress.note(f"{text}; --no-weights captures it as on the GPU")

    def explain_error(self, error: BaseException) -> str:
        """Return an explanation of an error that the program would not have had on a real GPU;
        empty for any other.
        """
        if "torch" not in sys.modules:
            return ""
        from fx_explorer.capture.virtual_gpu.fake_cuda_tensors import missing_value

        if words := not_written(error) or not_possible(error):
            return f"{words} It happened"
        return missing_value(error)

    def _record(self, emulation: Emulation) -> None:
        self._progress.writer.set_meta(
            "virtual_gpu", {**emulation.to_json(), "warning": self._warning}
        )
        text = IN_WORDS[emulation.mode]
        if emulation.reason:
            text += f": {emulation.reason}"
        if text != self._told:
            self._told = text
            self._progress.note(f"virtual {self._gpu.title}: {text}")
