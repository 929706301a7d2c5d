import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
picked = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
subprocess.run([PYTHON, CHILD], env=picked, check=True)
