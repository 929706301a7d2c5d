"""Commits made for three programs, in a repository made for it: 25 that make something worse, which
``check --baseline`` must find at their line, and 50 that change nothing, at which it must be silent.

    .venv/bin/python -m benchmarks.regressions --folder /tmp/regressions
    .venv/bin/python -m benchmarks.regressions --folder /tmp/regressions --only gpt2

Two programs use models of transformers in tiny configurations, one is plain PyTorch. Each commit
is checked on top of the accepted one. Results are kept in the folder, so that a run that was
stopped continues.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.cli import main as fx_explorer

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
    options: tuple[str, ...] = ()
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
           "        self.calls += 1\n        hidden = scaled(hidden) * self.calls\n",
           line="def forward(self, tokens):"),
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
    git(folder, "tag", "accepted")


def checked(folder: Path, *options: str) -> tuple[int, str]:
    """Check the project of a folder. Returns the exit code and what was printed."""
    here, out = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            exit_code = fx_explorer(["check", *options])
    finally:
        os.chdir(here)
    return exit_code, out.getvalue()


def commit_and_check(folder: Path, change: Change) -> dict[str, object]:
    """Commit a change on top of the accepted state and check it."""
    git(folder, "checkout", "-q", "--force", "--detach", "accepted")
    file = folder / change.file
    text = file.read_text()
    if change.old not in text:
        raise SystemExit(f"{change.name}: {change.file} does not have what is replaced")
    changed = text.replace(change.old, change.new)
    file.write_text(changed)
    git(folder, "commit", "-q", "-a", "-m", change.name)
    git(folder, "tag", "-f", change.name.replace(" ", "-"))
    sarif = folder / ".git" / "check.sarif"
    sarif.unlink(missing_ok=True)
    began = time.monotonic()
    exit_code, said = checked(folder, "--sarif", str(sarif))
    places = _places(sarif)
    return {
        "exit_code": exit_code,
        "is_right": exit_code == 0 if change.is_harmless else _is_found(change, changed, places),
        "places": sorted(places),
        "said": said[-3000:],
        "took_s": round(time.monotonic() - began, 1),
    }


def _places(sarif: Path) -> set[tuple[str, int]]:
    places: set[tuple[str, int]] = set()
    if not sarif.exists():
        return places
    for result in json.loads(sarif.read_text())["runs"][0]["results"]:
        for location in result.get("locations", ()):
            place = location["physicalLocation"]
            line = place.get("region", {}).get("startLine", 0)
            places.add((place["artifactLocation"]["uri"], line))
    return places


def _is_found(change: Change, changed: str, places: set[tuple[str, int]]) -> bool:
    """Return whether a failure names one of the new lines, or the line that is to be named."""
    new = {line.strip() for line in change.new.splitlines()}
    new -= {line.strip() for line in change.old.splitlines()}
    wanted = {change.line} if change.line else new
    texts = {change.file: changed.splitlines(), "net.py": None, "ops.py": None}
    for file, line in places:
        lines = texts.get(file)
        if lines is None and file in ("net.py", "ops.py") and change.line:
            lines = []  # looked up below, by its text in the accepted file
        if lines and 0 < line <= len(lines) and lines[line - 1].strip() in wanted:
            return True
    return bool(change.line) and _names_line_elsewhere(change, places)


def _names_line_elsewhere(change: Change, places: set[tuple[str, int]]) -> bool:
    """Return whether a failure names the line in a file that the change does not touch."""
    for program in BODIES:
        for name, text in texts_of(program).items():
            lines = text.splitlines()
            for file, line in places:
                is_there = file == name != change.file and 0 < line <= len(lines)
                if is_there and lines[line - 1].strip() == change.line:
                    return True
    return False


def run_program(folder: Path, program: str, say: Callable[[str], None]) -> list[dict[str, object]]:
    """Check the commits of a program that have no result yet; return all results."""
    repository, results_file = folder / program, folder / f"{program}.results.json"
    if not (repository / ".git").exists():
        new_repository(repository, program)
    stored = json.loads(results_file.read_text()) if results_file.exists() else {}
    for change in changes_of(program):
        if change.name not in stored:
            stored[change.name] = commit_and_check(repository, change)
            results_file.write_text(json.dumps(stored, indent=1))
        result = stored[change.name]
        verdict = "right" if result["is_right"] else "WRONG"
        kind = "harmless" if change.is_harmless else "worse"
        say(f"{program:6} {kind:9} {change.name:30} {verdict}  {result['took_s']:>6} s")
    return [{"is_harmless": c.is_harmless, **stored[c.name]} for c in changes_of(program)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--only", choices=list(BODIES), action="append")
    arguments = parser.parse_args()
    results = []
    for program in arguments.only or BODIES:
        results += run_program(arguments.folder, program, lambda line: print(line, flush=True))
    worse = [result for result in results if not result["is_harmless"]]
    harmless = [result for result in results if result["is_harmless"]]
    print(f"found at the right line: {sum(bool(r['is_right']) for r in worse)} of {len(worse)}")
    print(
        f"alarms at harmless commits: {sum(not r['is_right'] for r in harmless)} of {len(harmless)}"
    )


if __name__ == "__main__":
    main()
