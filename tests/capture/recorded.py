"""This helper records a compile in the test process: this is quick, and torch's own objects can be
compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fx_explorer.capture.recorder import compile_arguments, recording
from fx_explorer.model import CaptureRequest, Failure, Notice
from fx_explorer.session import SessionReader, SessionWriter

Compile = Callable[[Any], Any]


def record(path: Path, program: Callable[[Compile], object], **options: Any) -> SessionReader:
    """Run ``program(compile)`` under the recorder and open the session that it wrote."""
    reader, _ = record_with_notices(path, program, **options)
    return reader


def record_with_notices(
    path: Path, program: Callable[[Compile], object], **options: Any
) -> tuple[SessionReader, list[Notice]]:
    torch._dynamo.reset()
    request = CaptureRequest("test", str(path), **options)
    notices: list[Notice] = []
    writer = SessionWriter(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, while compiling
        with recording(writer, request, notices.append):
            program(lambda function: torch.compile(function, **compile_arguments(request)))
    writer.close()
    torch._dynamo.reset()
    return SessionReader(path), notices


SKIPPED = "functions that Dynamo does not trace"


def failures(reader: SessionReader) -> list[Failure]:
    """Return the failures of a session. torch 2.11 does not report which functions it skips; the
    failure that says so is left out.
    """
    return [row for row in reader.rows(Failure) if not row.message.startswith(f"{SKIPPED}:")]
