"""``--trust``, which every command has that captures or answers from a session."""

from __future__ import annotations

import argparse


def add_trust_argument(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--trust",
        action="store_true",
        help="X is a session that you did not capture on this machine, or a .pt2 file, and you trust whoever made it: "
        "compile its kernels, run the program it names, load it",
    )
