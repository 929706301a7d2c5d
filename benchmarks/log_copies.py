"""Large TORCH_TRACE logs, made of small ones that torch wrote: the given logs again and again,
every copy with new compile ids.

    python -m benchmarks.log_copies out.log --megabytes 1000

What a record says is not changed but for its ``frame_id``, so the hashes of the texts stay those
that torch wrote.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

GIVEN = tuple(
    Path(__file__).parents[1] / "tests" / "data" / "torch_trace" / f"h200_{name}.log.gz"
    for name in ("graph_breaks", "recompiles", "user_triton", "gpt_block_train", "llama_train")
)
"""The small logs first: what the first screen shows is in the first megabyte of most logs."""

FRAMES_OF_A_COPY = 1_000

_FRAME = re.compile(rb'^(V.*"frame_id": )(\d+)(?=, "frame_compile_id": )', re.M)


def write_copies(target: Path, size_mb: float, given: Sequence[Path] = GIVEN) -> int:
    """Write a log of at least so many megabytes, and return how many copies it holds."""
    texts = [_opened(path) for path in given]
    with target.open("wb") as written:
        for copy in itertools.count():
            if written.tell() >= size_mb * 1e6:
                return copy
            written.write(_with_frames_from(texts[copy % len(texts)], copy * FRAMES_OF_A_COPY))
    raise AssertionError("count() has no end")


def _opened(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def _with_frames_from(text: bytes, first: int) -> bytes:
    return _FRAME.sub(lambda found: found[1] + b"%d" % (int(found[2]) + first), text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=float, default=40.0)
    parser.add_argument(
        "--of", type=Path, nargs="+", default=list(GIVEN), metavar="LOG", help="the logs to repeat"
    )
    arguments = parser.parse_args()
    copies = write_copies(arguments.target, arguments.megabytes, arguments.of)
    print(f"{arguments.target}: {copies:,} copies, {arguments.target.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    main()
