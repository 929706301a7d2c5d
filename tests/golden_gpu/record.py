"""This script records on a real GPU the kernels that it makes of the programs: ``python
tests/golden_gpu/record.py OUT.json.gz``.

For each program: the code of each graph, and of each Triton kernel every configuration that
Inductor builds, with its PTX and its registers, local and shared memory as the driver tells them.
Two choices that are timed on the device are taken by rule, as for a virtual GPU: no shape is
padded, and of the templates of a matrix product the first is taken.
"""

import gzip
import json
import re
import sys
from typing import Any

import torch
import torch._functorch.config
import triton
from programs import PROGRAMS, Program
from torch._inductor import config, select_algorithm
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime import triton_heuristics

CONFIG = {"compile_threads": 1, "fx_graph_cache": False, "shape_padding": False}
LAUNCHERS = ("use_static_cuda_launcher", "use_static_triton_launcher")


def main(path: str) -> None:
    """Record every program and write one compressed JSON file."""
    for name in LAUNCHERS:
        if hasattr(config, name):
            setattr(config, name, False)
    recorder = Recorder()
    recorder.install()
    recorded = {}
    for name, build in PROGRAMS.items():
        recorded[name] = recorder.record(build("cuda"))
        print(
            name,
            len(recorded[name]["graphs"]),
            "graphs",
            len(recorded[name]["builds"]),
            "builds",
            flush=True,
        )
    facts = {
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "triton": triton.__version__,
    }
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump({**facts, "programs": recorded}, file)


class Recorder:
    """Recorder notes the kernels that Inductor writes and builds while it compiles for the GPU of
    this machine.
    """

    def __init__(self) -> None:
        self.graphs: list[dict[str, Any]] = []
        self.builds: list[dict[str, Any]] = []

    def install(self) -> None:
        codegen, make_launcher = (
            GraphLowering.codegen,
            triton_heuristics.TritonCompileResult.make_launcher,
        )

        def noting_codegen(lowering: GraphLowering) -> Any:
            written = codegen(lowering)
            code = written[0].value if hasattr(written[0], "value") else written[0]
            self.graphs.append({"is_backward": lowering.is_backward, "code": code})
            return written

        def noting_launcher(result: Any) -> Any:
            launcher = make_launcher(result)
            self.builds.append(_build(result, launcher))
            return launcher

        GraphLowering.codegen = noting_codegen
        triton_heuristics.TritonCompileResult.make_launcher = noting_launcher
        select_algorithm.add_preprocessing_fn(_first_template)

    def record(self, program: Program) -> dict[str, Any]:
        """Compile and run a program, forward and backward; return what was noted meanwhile."""
        self.graphs, self.builds = [], []
        torch._dynamo.reset()
        torch.manual_seed(0)
        with config.patch({**CONFIG, **program.options}):
            out = torch.compile(program.call, dynamic=program.dynamic)(*program.arguments)
            parts = out if isinstance(out, tuple) else (out,)
            wanting = [part for part in parts if part.requires_grad]
            if wanting:
                torch.autograd.backward(wanting, [torch.randn_like(part) for part in wanting])
        return {"graphs": self.graphs, "builds": self.builds}


def _build(result: Any, launcher: Any) -> dict[str, Any]:
    options = {
        **result.config.kwargs,
        "num_warps": result.config.num_warps,
        "num_stages": result.config.num_stages,
    }
    kernel = result.kernel
    return {
        "kernel": re.search(r"\.entry (\w+)", kernel.asm["ptx"])[1],
        "options": options,
        "ptx": kernel.asm["ptx"],
        "registers": launcher.n_regs,
        "local_words": launcher.n_spills,  # the driver tells local memory, whatever it is used for
        "shared": launcher.shared,
    }


def _first_template(choices: list[Any]) -> list[Any]:
    return sorted(
        choices, key=lambda choice: isinstance(choice, select_algorithm.ExternKernelCaller)
    )[:1]


if __name__ == "__main__":
    main(sys.argv[1])
