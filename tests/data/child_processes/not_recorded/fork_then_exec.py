import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
pid = os.fork()
if pid == 0:
    os.execv(PYTHON, [PYTHON, "-I", CHILD])
os.waitpid(pid, 0)
