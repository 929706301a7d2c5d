"""This script builds every Triton kernel of a session for its GPU: ``python build_all.py SESSION``
prints one JSON object a build.
"""

import json
import sys

from fx_explorer import model
from fx_explorer.analysis.documents import Document, text_of
from fx_explorer.capture.virtual_gpu.building import Toolchain
from fx_explorer.capture.virtual_gpu.triton_kernel import loaded
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.measure.kernel_builder import QUOTED
from fx_explorer.session import SessionReader


def main(path: str) -> None:
    toolchain = Toolchain(find_gpu("h200"))
    with SessionReader(path) as reader:
        kernels = [
            kernel
            for kernel in reader.rows(model.Kernel)
            if kernel.language == "triton" and kernel.artifact
        ]
        for kernel in kernels:
            build(
                toolchain,
                kernel.name,
                QUOTED + text_of(reader, Document("artifact", kernel.artifact)),
            )


def build(toolchain: Toolchain, name: str, source: str) -> None:
    """The configurations that the autotuner sets out with, then those it adds when they use many
    registers.
    """
    kernel = loaded(name, source)
    first = [toolchain.build(kernel, position) for position in range(len(kernel.configs))]
    kernel.add_smaller_blocks([built.used.registers for built in first])
    more = [
        toolchain.build(kernel, position) for position in range(len(first), len(kernel.configs))
    ]
    for config, built in zip(kernel.configs, first + more, strict=True):
        options = {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages}
        print(
            json.dumps(
                {
                    "kernel": name,
                    "options": options,
                    "ptx": built.texts["ptx"],
                    "registers": built.used.registers,
                    "local_words": built.used.stack_bytes // 4,
                    "shared": built.shared_bytes,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1])
