import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import PYTHON, compile_here

if __name__ == "__main__":
    compile_here()
    if sys.argv[1:] != ["again"]:
        subprocess.run([PYTHON, os.path.abspath(__file__), "again"], check=True)
