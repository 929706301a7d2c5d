import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
with tempfile.TemporaryDirectory() as folder:
    wrapper = os.path.join(folder, "mypy")
    with open(wrapper, "w") as file:
        file.write(f'#!/bin/sh\nunset PYTHONPATH\nexec {PYTHON} "$@"\n')
    os.chmod(wrapper, 0o755)
    subprocess.run([wrapper, CHILD], check=True)
