import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here

compile_here()
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
