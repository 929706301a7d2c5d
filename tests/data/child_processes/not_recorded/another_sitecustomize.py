import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "sitecustomize.py"), "w"):
        pass
    path = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    subprocess.run([PYTHON, CHILD], env={**os.environ, "PYTHONPATH": path}, check=True)
