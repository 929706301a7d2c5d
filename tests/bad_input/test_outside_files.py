"""These tests check files, arguments and programs from a stranger: they are judged before they are
read, and answered in one line.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import stat
import zipfile
from pathlib import Path

import pytest

from fx_explorer import cli, gpus
from fx_explorer.argument_types import count, counts, option, seconds, words
from fx_explorer.client import asked_python
from fx_explorer.client.asked_python import MOST_PRINTED
from fx_explorer.commands.doctor import gpu_checks, torch_checks
from fx_explorer.errors import FxExplorerError, UsageError, WorkerError
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.backends.command import backends_of
from fx_explorer.instruments.kernels.builder_pool import Builder
from fx_explorer.model.checked_json import finite_number
from fx_explorer.outside_file import MOST_OF_A_TOML, open_outside, read_outside, read_toml
from fx_explorer.session import SessionWriter
from fx_explorer.session.writer import finish_session
from fx_explorer.tui.config import MOST_PROBLEMS, load_config
from tests.exhaustive import rounds

MUTATIONS = rounds(1_000, exhaustive=10_000)

HOSTILE_TOML = {
    "brackets": "a = " + "[" * 100_000,
    "few brackets": "a = " + "[" * 30_000,
    "tables": "a = " + "{ b = " * 8_000,
    "digits": "theme = " + "9" * 5_000,
    "hexadecimal digits": "theme = 0x" + "f" * 5_000,
    "dots": "a" + ".a" * 30_000 + " = 1",
    "large": "#" * (MOST_OF_A_TOML + 1),
    "no text": "theme = \udcff",
    "nothing of ours": "".join(f"k{number} = 1\n" for number in range(2_000)),
    "escapes": 'theme = "\\u001b]0;owned\\u0007"',
    "nested keys": "".join(f"[{'a.' * depth}a]\n" for depth in range(150)),
}

NONSENSE = {
    "no JSON": "echo '{nonsense'; echo '{nonsense' >&$2",
    "another object": """echo '{"torch": 5, "backends": [{}], "version_info": "x"}'; echo '{"kind": 7}' >&$2""",
    "no object": "echo '[1]'; echo '[1]' >&$2",
    "nested": "printf '{\"a\":%.0s' $(seq 20000); printf '{\"a\":%.0s' $(seq 20000) >&$2",
    "nothing": "exit 3",
    "no text": "printf '\\xff\\xfe{\\n'; printf '\\xff\\xfe{\\n' >&$2",
}


@pytest.fixture(params=HOSTILE_TOML, ids=str)
def hostile_toml(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "hostile.toml"
    file.write_bytes(HOSTILE_TOML[request.param].encode(errors="surrogateescape"))
    return file


def fifo(folder: Path) -> Path:
    path = folder / "fifo"
    os.mkfifo(path)
    return path


def test_a_hostile_gpu_file_is_one_short_line(hostile_toml: Path) -> None:
    with pytest.raises(UsageError) as refused:
        find_gpu(str(hostile_toml))
    assert "\n" not in str(refused.value).replace("\\n", "")
    assert len(str(refused.value)) < 50_000


@pytest.mark.parametrize("kind", ["peak_flops", "memory_bandwidth"])
def test_a_number_of_a_gpu_that_no_float_holds_is_refused(kind: str, tmp_path: Path) -> None:
    text = (gpus.HERE / "l4.toml").read_text()
    at = text.index(kind)
    file = tmp_path / "given.toml"
    file.write_text(
        text[:at] + re.sub(r"value = [\d_.e]+", "value = " + "9" * 400, text[at:], count=1)
    )
    with pytest.raises(UsageError, match="no GPU has that many"):
        find_gpu(str(file))


@pytest.mark.parametrize("given", [10**400, float("nan"), float("inf"), True, "7", None, [1]])
def test_a_number_of_a_record_that_no_float_holds_is_none(given: object) -> None:
    assert finite_number(given) == 0.0
    assert finite_number(7) == 7.0


LONG_NAME = "k" * 20_000

QUOTING_A_LONG_NAME = {
    "a peak of no number": ("[peak_flops]", f"[peak_flops]\n{LONG_NAME} = 1"),
    "twice in one table": (
        "capability =",
        f"a = {{ {LONG_NAME} = 1, {LONG_NAME} = 2 }}\ncapability =",
    ),
    "added to a closed table": (
        "capability =",
        f"{LONG_NAME} = {{}}\n{LONG_NAME}.a = 1\ncapability =",
    ),
    "an unknown vendor": ('"nvidia"', f'"{LONG_NAME}"'),
    "an unknown architecture": ('"sm_89"', f'"{LONG_NAME}"'),
    "capability": ("[8, 9]", f'["{LONG_NAME}"]'),
}


@pytest.mark.parametrize("change", QUOTING_A_LONG_NAME.values(), ids=QUOTING_A_LONG_NAME)
def test_a_message_quotes_a_long_name_in_short(change: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "given.toml"
    file.write_text((gpus.HERE / "l4.toml").read_text().replace(*change, 1))
    with pytest.raises(UsageError) as refused:
        find_gpu(str(file))
    assert "kkk" in str(refused.value)
    assert len(str(refused.value)) < 2_000
    assert all(len(problem) < 2_000 for problem in load_config(file).problems)


def test_a_hostile_configuration_is_told_and_the_app_starts(hostile_toml: Path) -> None:
    config = load_config(hostile_toml)
    assert 0 < len(config.problems) <= MOST_PROBLEMS + 1
    assert all(len(problem) < 1_000 for problem in config.problems)
    assert not config.keys


@pytest.mark.parametrize("kind", ["fifo", "device", "folder", "no permission"])
def test_what_is_no_file_is_not_waited_for(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "given.toml"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("theme = 'dark'")
        monkeypatch.setattr(os, "open", refused)
    with pytest.raises(OSError, match=r"it is a|Permission denied"):
        open_outside(path)
    assert load_config(path).problems
    with pytest.raises(UsageError, match="cannot be read"):
        find_gpu(str(path))


def refused(*_: object, **__: object) -> int:
    raise PermissionError(13, "Permission denied")


def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_outside(Path("/proc/self/environ"), 10)  # has no size
    file = tmp_path / "file"
    file.write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="larger than 10 bytes"):
        read_outside(file, 10)
    assert read_outside(file, 11) == b"x" * 11


@pytest.mark.parametrize("name", ["x" * 5_000, "x" * 5_000 + ".toml", "\udcff", "a\0b"])
def test_a_gpu_that_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_gpu(name)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    "line",
    [
        ["report", "x" * 5_000],
        ["x" * 5_000],
        ["report", "x" * 5_000 + ".fxs"],
        ["ranks", "x" * 5_000],
        ["diff", "x" * 5_000, "y" * 5_000],
        ["kernel", "x" * 5_000],
        ["report", "/".join("x" * 5_000)],
        ["profile", "session.fxs", "x" * 5_000],
        ["profile", "session.fxs", "fifo"],
        ["profile", "model.pt2"],
        ["profile", "fifo", "fifo"],
        ["report", "session.fxs", "--profile", "fifo"],
        ["report", "fifo"],
        ["ranks", "fifo"],
        ["capture", "session.fxs", "--option", "a=" + "[" * 100_000],
        ["bench", "m.py", "--batch-sizes", "9" * 5_000],
        ["graph", "session.fxs", "x" * 5_000],
    ],
    ids=lambda line: " ".join(word[:12] for word in line),
)
def test_what_cannot_be_given_is_one_line(
    line: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    fifo(tmp_path)
    with zipfile.ZipFile(tmp_path / "model.pt2", "w") as archive:
        for member in ("archive_format", "version", "models/model.json"):
            archive.writestr(f"model/{member}", "{}")
    with SessionWriter(tmp_path / "session.fxs") as writer:
        writer.set_meta(
            "target",
            {
                "name": "t",
                "kind": "module",
                "file": "",
                "object": "",
                "train": False,
                "parameters": 0,
            },
        )
        writer.set_meta("environment", {})
        writer.set_meta("outcome", {"kind": "finished"})
    finish_session(tmp_path / "session.fxs")
    try:
        code = cli.main(line)
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code in (2, 5)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", NONSENSE)
async def test_a_program_that_is_no_python_is_told(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/bash\ncase "$2" in [0-9]*) ;; *) exec 3>/dev/null; set -- x 3;; esac\n{NONSENSE[kind]}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    python = str(program)
    assert torch_checks(python)[-1].state == "problem"
    assert gpu_checks(python, find_gpu("h100"))[-1].state == "problem"
    with pytest.raises(WorkerError, match=python):
        backends_of(python)
    builder = Builder(gpus.find_gpu("h100"), python)
    with pytest.raises(WorkerError):
        await builder.start()
    await builder.end()
    assert not list((tmp_path / "temporary").iterdir())


def test_an_answer_without_an_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PRINTED < 1 << 30
    monkeypatch.setattr(asked_python, "MOST_PRINTED", 1 << 20)
    with pytest.raises(WorkerError, match="without end"):
        asked_python.ask_python("/bin/sh", "-c", "yes", timeout_s=60)
    with pytest.raises(WorkerError, match=r"within 0\.1 s"):
        asked_python.ask_python("/bin/sh", "-c", "sleep 60 & wait", timeout_s=0.1)


TOML_PIECES = (
    "[", "]", "{", "}", "=", ".", ",", '"', "'", '"""', "\n", "#", "0x", "1e9", "nan", "inf", "-", "9" * 400, "true",
    "1979-05-27", "\\u0000", "\\", "\ud800", "é", "keys", "value", "source", "name", "capability",
)  # fmt: skip

ARGUMENT_PIECES = (
    "=", "[", "{", "(", ":", ",", "9" * 400, "1e400", "nan", "-1", "0", "s", "\0", "\ud800", "٣", "²", "'", '"', "\\", "#",
    "lambda: 0", "__import__('os')", " ", "\n", "true", "none", "1_0", "0x", "*",
)  # fmt: skip


def mutated(chance: random.Random, text: str, pieces: tuple[str, ...]) -> str:
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(text) + 1)
        upto = min(len(text), at + chance.choice((0, 0, 1, 5, 40)))
        text = text[:at] + chance.choice(pieces) * chance.choice((1, 1, 1, 2, 50)) + text[upto:]
    return text


@pytest.mark.parametrize("kind", ["configuration", "gpu"])
def test_a_mutated_file_of_settings_is_read_or_refused(kind: str, tmp_path: Path) -> None:
    whole = {
        "configuration": 'theme = "dark"\nafter_fix = "ask"\nmark_kernels = true\n[keys]\n"pane.zoom" = ["Z", "f5"]\n',
        "gpu": (gpus.HERE / "l4.toml").read_text(),
    }[kind]
    file = tmp_path / "given.toml"
    chance, longest = random.Random(kind), 0
    for _ in range(MUTATIONS):
        text = mutated(chance, whole, TOML_PIECES)
        file.write_bytes(text.encode(errors="surrogatepass"))
        if kind == "configuration":
            config = load_config(file)
            assert len(config.problems) <= MOST_PROBLEMS + 1
            continue
        try:
            find_gpu(str(file)).to_json()
        except UsageError as error:
            longest = max(longest, len(str(error)))
    assert longest < 10_000


def test_mutated_arguments_are_values_or_refused() -> None:
    import argparse

    chance = random.Random(0)
    for _ in range(MUTATIONS):
        read = chance.choice((option, count, counts, seconds, words))
        text = mutated(chance, "max_fusion_size=[1, 2]", ARGUMENT_PIECES)
        with contextlib.suppress(argparse.ArgumentTypeError, ValueError):
            read(text)


def test_settings_are_read_where_nobody_has_a_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pwd

    from fx_explorer.folders import NO_HOME, home_folder, state_folder, typed_path
    from fx_explorer.session.ownership import secret_path
    from fx_explorer.tui.config import Config, config_path

    def nobody(_: int) -> object:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert home_folder() == NO_HOME
    assert load_config(config_path()) == Config()
    assert not secret_path().exists()
    with pytest.raises(OSError, match="Not a directory"):
        state_folder().mkdir(parents=True)
    assert typed_path("~/x") == Path("~/x")
    assert typed_path("~nobody-has-this-name/x") == Path("~nobody-has-this-name/x")


def test_toml_that_is_fine_is_read(tmp_path: Path) -> None:
    file = tmp_path / "fine.toml"
    file.write_text('a.b = [1, 2]\n[c]\nd = "e"\n')
    assert read_toml(file) == {"a": {"b": [1, 2]}, "c": {"d": "e"}}
    assert issubclass(UsageError, FxExplorerError)
