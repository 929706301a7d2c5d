"""These tests check how the options that differ between two captures are told."""

from __future__ import annotations

import json
from pathlib import Path

from fx_explorer import model
from fx_explorer.instruments.diff.differences import differences
from fx_explorer.instruments.diff.users_changes import ChangedOption, changed_options
from fx_explorer.session import SessionReader, SessionWriter


def asked(path: Path, value: str, **options: object) -> SessionReader:
    """Return a session with a request, and with the value of a setting in force."""
    with SessionWriter(path) as writer:
        request = model.CaptureRequest("mlp.py", str(path), **options)  # type: ignore[arg-type]
        writer.set_meta("request", json.loads(request.to_json()))
        writer.set_meta("outcome", model.Outcome("finished").to_json())
        writer.add(model.Setting(0, "inductor", "max_autotune", "bool", "false", value, "", ()))
        writer.add(model.OptionInForce(0, "inductor.max_autotune", value, "default", "f"))
    return SessionReader(path)


def test_each_option_is_a_line_of_its_own_with_both_values(tmp_path: Path) -> None:
    settings = {"inductor.cpp.threads": 4, "dynamo.verbose": True}
    before = asked(tmp_path / "a.fxs", "false", settings=settings)
    after = asked(tmp_path / "b.fxs", "false", settings={"dynamo.verbose": False}, no_weights=True)
    changed = sorted(changed_options(before, after), key=lambda option: option.name)
    assert changed == [
        ChangedOption("dynamo.verbose", "True", "False"),
        ChangedOption("inductor.cpp.threads", "4", "not set"),
        ChangedOption("no_weights", "False", "True"),
    ]
    before.close()
    after.close()


def test_a_setting_is_told_once_as_python_writes_it(tmp_path: Path) -> None:
    before = asked(tmp_path / "a.fxs", "false")
    after = asked(tmp_path / "b.fxs", "true", settings={"inductor.max_autotune": True})
    figures = [row.figure for row in differences(before, after).rows]
    rows = [figure for figure in figures if "max_autotune" in figure.what]
    assert [(figure.left, figure.right) for figure in rows] == [("False", "True")]
    assert not [figure for figure in figures if "{" in figure.left + figure.right]
    before.close()
    after.close()
