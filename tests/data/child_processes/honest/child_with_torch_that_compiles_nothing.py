import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import PYTHON, compile_here

compile_here()
subprocess.run([PYTHON, "-c", "import torch; print(torch.ones(2).sum())"], check=True)
