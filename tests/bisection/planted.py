"""This module makes git repositories of small programs whose history has one planted regression
among harmless commits.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.up(x))
        return torch.relu(x + self.down(hidden))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(16) for _ in range(2)])
        self.calls = 3

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        x = x * 2
        return x.sum()


torch.manual_seed(0)
model = Model()
example_inputs = (torch.randn(4, 16),)
"""

SCRIPT = """\
import torch
from model import model

compiled = torch.compile(model)
for _ in range(3):
    compiled(torch.randn(4, 16)).backward()
"""


@dataclass(frozen=True)
class Planted:
    """A change that makes a condition fail, and what a bisect must say of it."""

    condition: tuple[str, ...]
    old: str
    new: str
    fact: str
    """Regular expression for the text of a fact."""
    line: str = ""
    """Text of the line that the fact names; ``new``'s first line by default."""

    @property
    def changed_line(self) -> str:
        return self.line or self.new.strip().splitlines()[0]


SCALED = "        x = x * 2\n"

PLANTED = {
    "graph break": Planted(
        ("model.py", "--max-graph-breaks", "0"),
        SCALED,
        f"        print(x.shape)\n{SCALED}",
        "a Python builtin acts outside of the graph",
    ),
    "recompile": Planted(
        ("train.py", "--max-recompiles", "0"),
        SCALED,
        "        self.calls += 1\n        x = x * self.calls\n",
        r"Model\.forward.* self\.calls",
    ),
    "lost fusion": Planted(
        ("model.py", "--no-train", "--expect-fused", "mul", "sum"),
        SCALED,
        "        x = (x * 2).sort(1).values\n",
        r"_fused_\w*sum",
        line="-",
    ),
    "fallback": Planted(
        ("model.py", "--no-fallbacks"),
        SCALED,
        "        x = x.sort(1).values * 2\n",
        "sort is fused with nothing",
    ),
    "saved bytes": Planted(
        ("model.py", "--max-saved-bytes", "12kB"),
        SCALED,
        "        x = torch.tanh(torch.tanh(x @ torch.ones(16, 512)) @ torch.ones(512, 16))\n",
        r"512\] is saved for the backward",
    ),
    "kernels": Planted(
        ("model.py", "--max-kernels", "18"),
        SCALED,
        "        x = x @ torch.ones(16, 16)\n",
        "mm",
    ),
    "other result": Planted(
        ("model.py", "--no-train", "--close-to-eager"),
        SCALED,
        "        x = x * (3 if torch.compiler.is_compiling() else 2)\n",
        "",
        line="-",
    ),
    "more graphs": Planted(
        ("model.py", "--expect-graphs", "1"),
        SCALED,
        f"        torch._dynamo.graph_break()\n{SCALED}",
        "graph_break",
    ),
    "an error": Planted(
        ("model.py", "--fullgraph", "--max-graph-breaks", "0"),
        SCALED,
        f"        print(x.shape)\n{SCALED}",
        r"raised .*print\(x\.shape\)",
        line="-",
    ),
    "guards": Planted(
        ("model.py", "--max-guards", "70"),
        SCALED,
        "        self.scales = {str(n): n for n in range(40)}\n        x = x * sum(self.scales.values())\n",
        r"guard on .*scales",
        line="-",
    ),
    "peak": Planted(
        ("model.py", "--max-peak", "25kB"),
        SCALED,
        "        x = (x.unsqueeze(2) * torch.ones(64)).softmax(1).sum(2)\n",
        "predicted peak memory",
        line="-",
    ),
}


def git(folder: Path, *arguments: str) -> str:
    """Run git, as somebody else than whoever runs the tests."""
    identity = {
        "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann", "GIT_COMMITTER_EMAIL": "ann@example.org",
        "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
    }  # fmt: skip
    ended = subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments],
        cwd=folder, env={**os.environ, **identity}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return ended.stdout.strip()


def new_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    return folder


def commit(repository: Path, subject: str, **texts: str) -> str:
    """Write files (``model_py=…`` is model.py) and commit all. Return the commit."""
    for name, text in texts.items():
        path = repository / f"{name[: name.rindex('_')]}.{name[name.rindex('_') + 1 :]}"
        path.write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", subject)
    return git(repository, "rev-parse", "HEAD")


def history(folder: Path, planted: Planted, commits: int, at: int) -> tuple[Path, str, str]:
    """Make a repository with this number of commits after the first, the one at ``at`` with the
    regression. Return it, its first commit and that one. The others add comments and lines of a
    document.
    """
    repository = new_repository(folder)
    program = PROGRAM
    first = commit(repository, "the model", model_py=program, train_py=SCRIPT)
    bad = ""
    for number in range(1, commits + 1):
        if number == at:
            assert planted.old in program
            program = program.replace(planted.old, planted.new)
            bad = commit(repository, f"change {number}", model_py=program)
        elif number % 3:
            commit(repository, f"notes {number}", notes_md=f"note {number}\n")
        else:
            program = f"# remark {number}\n{program}"
            commit(repository, f"remark {number}", model_py=program)
    return repository, first, bad
