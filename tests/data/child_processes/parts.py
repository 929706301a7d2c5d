"""What the scripts beside this file share. A check of each that forbids graph breaks must fail for those in
``not_recorded``, whose child hits one, and pass for those in ``honest``.
"""

import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
CHILD = os.path.join(FOLDER, "child.py")
PYTHON = sys.executable


def compile_here():
    import torch

    torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(3))
