"""Commits made for three programs, in a repository made for it: 25 that make something worse, which
``check --baseline`` must find at their line, and 50 that change nothing, at which it must be silent.

    .venv/bin/python -m benchmarks.regressions --folder /tmp/regressions
    .venv/bin/python -m benchmarks.regressions --folder /tmp/regressions --only gpt2

Two programs use models of transformers in tiny configurations, one is plain PyTorch. Each commit
is checked on top of the accepted one, in a clone. Results are kept in the folder, so that a run
that was stopped continues; ``--jobs 8`` checks eight at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

OPS = '''\
import torch


def scaled(hidden):
    """Scale what the model computes."""
    hidden = hidden * 2.0
    return torch.relu(hidden + 1.0)
'''

BODIES = {
    "gpt2": (
        "from transformers import GPT2Config, GPT2Model",
        "GPT2Model(GPT2Config(n_layer=1, n_embd=32, n_head=2, vocab_size=64, n_positions=32))",
        "self.body(input_ids=tokens, use_cache=False).last_hidden_state",
    ),
    "bert": (
        "from transformers import BertConfig, BertModel",
        "BertModel(BertConfig(num_hidden_layers=1, hidden_size=32, num_attention_heads=2, "
        "intermediate_size=64, vocab_size=64))",
        "self.body(input_ids=tokens).last_hidden_state",
    ),
    "plain": (
        "import math",
        "nn.Sequential(nn.Embedding(64, 32), nn.Linear(32, 32), nn.GELU(), nn.LayerNorm(32))",
        "self.body(tokens) / math.sqrt(2)",
    ),
}
"""Program → its import, its model, and the call of it."""

NET = """\
import torch
from torch import nn
{imported}

from ops import scaled


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = {body}
        self.head = nn.Linear(32, 64)
        self.calls = 3

    def forward(self, tokens):
        hidden = {call}
        hidden = scaled(hidden)
        logits = self.head(hidden)
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


torch.manual_seed(0)
net = Net().eval()
"""

TRAIN = """\
import torch
from net import net

compiled = torch.compile(net)
for _ in range(3):
    tokens = torch.randint(0, 64, (2, 8))
    loss = compiled(tokens)
    loss.backward()
"""


@dataclass(frozen=True)
class Change:
    """A commit: what is replaced in a file."""

    name: str
    file: str
    old: str
    new: str
    is_harmless: bool
    line: str = ""
    """Text of the line that must be named, where it is none of the new ones."""


DOUBLED = "    hidden = hidden * 2.0\n"
RELU = "    return torch.relu(hidden + 1.0)\n"
CALL = "        hidden = scaled(hidden)\n"
HEAD = "        logits = self.head(hidden)\n"
LOSS = "        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())\n"


def _worse(name: str, file: str, old: str, new: str, line: str = "") -> Change:
    return Change(name, file, old, new, is_harmless=False, line=line)


WORSE = (
    _worse("a print", "ops.py", DOUBLED, f"{DOUBLED}    print(hidden.shape)\n"),
    _worse("a branch on a value", "ops.py", DOUBLED,
           f"{DOUBLED}    if hidden.sum() > 1e9:\n        hidden = -hidden\n"),
    _worse("a function kept out", "ops.py", "def scaled", "@torch.compiler.disable\ndef scaled",
           line="hidden = scaled(hidden)"),
    _worse("a counter", "net.py", CALL,
           "        self.calls += 1\n        hidden = scaled(hidden) * self.calls\n"),
    _worse("a sort", "ops.py", RELU,
           "    hidden = hidden.sort(-1).values\n    return torch.relu(hidden + 1.0)\n"),
    _worse("a wide layer", "ops.py", DOUBLED,
           "    wide = torch.tanh(hidden @ torch.ones(32, 512))\n"
           "    hidden = wide @ torch.ones(512, 32)\n"),
    _worse("a loop", "ops.py", DOUBLED,
           "    for _ in range(6):\n        hidden = torch.tanh(hidden @ torch.ones(32, 32))\n"),
    _worse("a lost fusion", "ops.py", RELU,
           "    hidden = torch.cumprod(hidden, 1)\n    return torch.relu(hidden + 1.0)\n"),
    _worse("a logger", "net.py", CALL,
           f"        import logging\n        logging.getLogger('net').warning('x')\n{CALL}"),
)  # fmt: skip
"""Each for every program, but that the first two have eight of them."""


def _same(name: str, file: str, old: str, new: str) -> Change:
    return Change(name, file, old, new, is_harmless=True)


HARMLESS = (
    _same("a comment above", "ops.py", "import torch\n", "# Operations.\n\nimport torch\n"),
    _same("a docstring", "ops.py", '"""Scale what the model computes."""',
          '"""Scale what the model computes.\n\n    It keeps the shape.\n    """'),
    _same("a renamed variable", "ops.py", f"{DOUBLED}{RELU}",
          "    twice = hidden * 2.0\n    return torch.relu(twice + 1.0)\n"),
    _same("another layout", "ops.py", RELU,
          "    shifted = (\n        hidden + 1.0\n    )\n    return torch.relu(shifted)\n"),
    _same("the other order", "ops.py", DOUBLED, "    hidden = 2.0 * hidden\n"),
    _same("another name of relu", "ops.py", "torch.relu(", "torch.nn.functional.relu("),
    _same("a constant", "ops.py", f"{DOUBLED}", "    factor = 2.0\n    hidden = hidden * factor\n"),
    _same("types", "ops.py", "def scaled(hidden):",
          "def scaled(hidden: torch.Tensor) -> torch.Tensor:"),
    _same("an unused function", "ops.py", "def scaled",
          "def unused(x):\n    print(x)\n    return x.item()\n\n\ndef scaled"),
    _same("a helper", "ops.py", f"{DOUBLED}{RELU}",
          "    return _shifted(hidden * 2.0)\n\n\ndef _shifted(x):\n    return torch.relu(x + 1.0)\n"),
    _same("an assertion on a shape", "net.py", CALL,
          f"{CALL}        assert hidden.shape[-1] == 32\n"),
    _same("reshape in place of flatten", "net.py", "logits.flatten(0, 1)", "logits.reshape(-1, 64)"),
    _same("a renamed class", "net.py", "Net", "Model"),
    _same("an attribute", "net.py", "        self.calls = 3\n",
          "        self.calls = 3\n        self.note = 'unused'\n"),
    _same("another batch", "train.py", "(2, 8)", "(4, 8)"),
    _same("another length", "train.py", "(2, 8)", "(2, 16)"),
    _same("a print outside", "train.py", "    loss.backward()\n",
          "    loss.backward()\n    print('loss', loss.item())\n"),
)  # fmt: skip
"""Each for every program, but that the last has 16 of them."""

NUMBERS = {"gpt2": (8, 17), "bert": (8, 17), "plain": (9, 16)}
"""Program → how many of either kind: 25 and 50 in all."""


def changes_of(program: str) -> list[Change]:
    worse, harmless = NUMBERS[program]
    return [*WORSE[:worse], *HARMLESS[:harmless]]


def texts_of(program: str) -> dict[str, str]:
    imported, body, call = BODIES[program]
    net = NET.format(imported=imported, body=body, call=call)
    table = (
        f'[tool.fx-explorer.check.{program}]\ntarget = "train.py"\n'
        f'baseline = "{program}.json"\nown = "."\n'
    )
    return {"ops.py": OPS, "net.py": net, "train.py": TRAIN, "pyproject.toml": table}


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def new_repository(folder: Path, program: str) -> None:
    """Make the repository, with the program and its accepted baseline as the first commit."""
    folder.mkdir(parents=True)
    for name, text in texts_of(program).items():
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    exit_code, said = checked(folder, "--update")
    if exit_code:
        raise SystemExit(f"{program} itself cannot be captured:\n{said}")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "accepted")


def checked(folder: Path, *options: str) -> tuple[int, str]:
    """Check the project of a folder. Returns the exit code and what was printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "fx_explorer", "check", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, PATHS))},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout


PATHS = (str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", ""))


def commit_and_check(repository: Path, program: str, change: Change) -> dict[str, object]:
    """Commit a change on top of the accepted state, in a clone of its own, and check it."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / program
        git(repository, "clone", "-q", str(repository), str(folder))
        (folder / change.file).write_text(changed_text(program, change))
        git(folder, "commit", "-q", "-a", "-m", change.name)
        sarif = Path(place) / "check.sarif"
        began = time.monotonic()
        exit_code, said = checked(folder, "--sarif", str(sarif))
        return {
            "exit_code": exit_code,
            "places": sorted(_places(sarif)),
            "said": said[-3000:],
            "took_s": round(time.monotonic() - began, 1),
        }


def changed_text(program: str, change: Change) -> str:
    text = texts_of(program)[change.file]
    if change.old not in text:
        raise SystemExit(f"{change.name}: {change.file} does not have what is replaced")
    return text.replace(change.old, change.new)


def _places(sarif: Path) -> set[tuple[str, int]]:
    """Return the files and lines that failures name."""
    places: set[tuple[str, int]] = set()
    if not sarif.exists():
        return places
    for result in json.loads(sarif.read_text())["runs"][0]["results"]:
        for location in result.get("locations", ()):
            place = location["physicalLocation"]
            line = place.get("region", {}).get("startLine", 0)
            places.add((place["artifactLocation"]["uri"], line))
    return places


def is_right(program: str, change: Change, result: dict[str, Any]) -> bool:
    """Return whether a harmless commit passes; whether another fails, at one of its new lines or at
    the line that is to be named.
    """
    if change.is_harmless:
        return bool(result["exit_code"] == 0)
    if result["exit_code"] != 1:
        return False
    new = {line.strip() for line in change.new.splitlines()}
    new -= {line.strip() for line in change.old.splitlines()}
    wanted = {change.line} if change.line else new
    texts = {**texts_of(program), change.file: changed_text(program, change)}
    for file, line in result["places"]:
        lines = texts.get(file, "").splitlines()
        if 0 < line <= len(lines) and lines[line - 1].strip() in wanted:
            return True
    return False


def run_program(folder: Path, program: str, jobs: int) -> Iterator[tuple[Change, bool]]:
    """Check the commits of a program that have no result yet; yield the verdict of each."""
    repository, results_file = folder / program, folder / f"{program}.results.json"
    if not (repository / ".git").exists():
        new_repository(repository, program)
    stored = json.loads(results_file.read_text()) if results_file.exists() else {}
    missing = [change for change in changes_of(program) if change.name not in stored]
    with ThreadPoolExecutor(jobs) as pool:
        check = partial(commit_and_check, repository, program)
        for change, result in zip(missing, pool.map(check, missing), strict=True):
            stored[change.name] = result
            results_file.write_text(json.dumps(stored, indent=1))
    for change in changes_of(program):
        result = stored[change.name]
        verdict = is_right(program, change, result)
        kind = "harmless" if change.is_harmless else "worse"
        word = "right" if verdict else "WRONG"
        print(f"{program:6} {kind:9} {change.name:30} {word}  {result['took_s']:>6} s", flush=True)
        yield change, verdict


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", choices=list(BODIES), action="append")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    verdicts: list[tuple[Change, bool]] = []
    for program in arguments.only or BODIES:
        verdicts += run_program(arguments.folder, program, arguments.jobs)
    worse = [is_found for change, is_found in verdicts if not change.is_harmless]
    harmless = [is_silent for change, is_silent in verdicts if change.is_harmless]
    print(f"found at the right line: {sum(worse)} of {len(worse)}")
    print(f"alarms at harmless commits: {len(harmless) - sum(harmless)} of {len(harmless)}")
    raise SystemExit(not all(is_as_wanted for _, is_as_wanted in verdicts))


if __name__ == "__main__":
    main()
