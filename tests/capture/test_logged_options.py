"""These tests check that torch's log of its own options while it is recorded is that of a run
without recording.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
import torch._dynamo.config
import torch._dynamo.utils as dynamo_utils

from fx_explorer.capture.backends.listening import logged_as
from fx_explorer.capture.recorder import recording
from fx_explorer.capture.torch_compat.patching import configured
from fx_explorer.model import CaptureRequest, Compilation
from fx_explorer.session import SessionReader, SessionWriter


def functions_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log options as torch 2.11 does: it knows nothing of a set of functions."""
    original = dynamo_utils._get_dynamo_config_for_logging

    def as_in_2_11() -> str | None:
        sorted(torch._dynamo.config.ignore_logging_functions)
        return original()

    monkeypatch.setattr(dynamo_utils, "_get_dynamo_config_for_logging", as_in_2_11)


def test_a_set_of_functions_that_torch_cannot_log_loses_no_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions_are_logged(monkeypatch)
    torch._dynamo.reset()
    with SessionWriter(tmp_path / "s.fxs") as writer, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with recording(writer, CaptureRequest("test", "s"), lambda notice: None):
            torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.randn(3))
    with SessionReader(tmp_path / "s.fxs") as reader:
        (row,) = reader.rows(Compilation)
    assert row.status == "ok"
    assert row.duration_s > 0


def test_options_that_are_set_for_recording_are_logged_as_they_were() -> None:
    before = dynamo_utils._get_dynamo_config_for_logging()
    changed = torch._dynamo.config.recompile_limit + 1
    values = {"recompile_limit": changed}
    with configured(torch._dynamo.config, values):
        assert dynamo_utils._get_dynamo_config_for_logging() != before
        with logged_as({"recompile_limit": changed - 1}):
            assert dynamo_utils._get_dynamo_config_for_logging() == before
            assert torch._dynamo.config.recompile_limit == changed
    assert dynamo_utils._get_dynamo_config_for_logging() == before
