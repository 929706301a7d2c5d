"""These helpers write sessions with a kernel and a launch of it, as a capture on a GPU leaves them
behind.
"""

from __future__ import annotations

from pathlib import Path

from fx_explorer.model import Argument, Artifact, Compilation, Kernel, KernelBuild, KernelLaunch
from fx_explorer.session import SessionWriter

FLOATS: Argument = {
    "dtype": "float32",
    "shape": [4, 8],
    "stride": [8, 1],
    "device": "cuda",
    "is_mutated": False,
}
ARGUMENTS: tuple[Argument, ...] = (
    {**FLOATS, "name": "in_out_ptr0", "is_mutated": True},
    {**FLOATS, "name": "in_ptr0", "stride": [1, 4]},
    {"name": "xnumel", "value": 32},
)


def launched_session(
    path: Path, source: str, name: str, *, is_launched: bool = True, language: str = "triton"
) -> Kernel:
    """The kernel of a session that is written to ``path``."""
    with SessionWriter(path) as writer:
        owner = writer.add(Compilation(0, "0/0", 0, 0, "f", "f.py", 1))
        artifact = writer.add(
            Artifact(
                0, owner, "kernel", "kernel", "forward", name, "triton", writer.text(source), 1
            )
        )
        kernel = Kernel(
            0, owner, "forward", 0, name, language, artifact, estimated_bytes=48_000_000
        )  # type: ignore[arg-type]
        kernel_id = writer.add(kernel)
        options: dict[str, object] = {"XBLOCK": 512, "num_warps": 8, "num_stages": 1}
        build = writer.add(
            KernelBuild(0, kernel_id, 0, options, "NVIDIA H200", "built", is_picked=True)
        )
        if is_launched:
            writer.add(KernelLaunch(0, kernel_id, build, (1, 1, 1), 1, ARGUMENTS[:1]))
            writer.add(KernelLaunch(0, kernel_id, build, (1, 1, 1), 7, ARGUMENTS))
    return Kernel(
        kernel_id, owner, "forward", 0, name, language, artifact, estimated_bytes=48_000_000
    )  # type: ignore[arg-type]
