import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import PYTHON, compile_here

compile_here()
for options in ([], ["-I"], ["-S"], ["-E", "-u"]):
    subprocess.run([PYTHON, *options, "-c", "print(1)"], check=True)
subprocess.run([PYTHON, "-c", "print(2)"], env={}, check=True)
