"""What a fork server imports while it is idle is what a compilation imports, and leaves the server
able to fork.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.conftest import ROOT

PROGRAM = """
import json, sys, threading
from fx_explorer.worker import fork_server, later_imports

assert fork_server._import_all()
import torch

for step in later_imports.steps():
    step()
prepared = set(sys.modules)
state = threading.active_count(), torch.cuda.is_initialized()

model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
sequence = torch.randn(2, 4, 8, requires_grad=True)
torch.compile(model)(sequence, sequence, sequence)[0].sum().backward()

print(json.dumps([*state, sorted(set(sys.modules) - prepared), sorted(prepared)]))
"""

BUILDING = (
    "torch._appdirs",
    "torch._inductor.runtime.compile_tasks.",
    "torch.utils._cpp_e",
    "torch.utils.cpp_extension",
    "torch.utils.file_baton",
)
"""What is imported only where kernels are built."""


def test_a_compilation_finds_its_modules_and_the_server_may_still_fork(
    bare_python: str, capture_environment: dict[str, str], tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [bare_python, str(program)],
        env=capture_environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    threads, has_cuda, imported, prepared = json.loads(done.stdout.splitlines()[-1])
    assert (threads, has_cuda) == (1, False)
    ours = [name for name in imported if name.startswith(("torch.", "sympy."))]
    assert not [name for name in ours if not name.startswith(BUILDING)], "\n".join(ours)
    assert "torch._inductor.fx_passes.serialized_patterns._sfdp_pattern_1" in prepared
