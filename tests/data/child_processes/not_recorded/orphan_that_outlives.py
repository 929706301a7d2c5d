import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
os.system(f"env -i setsid sh -c 'sleep 20; {PYTHON} -I {CHILD}' > /dev/null 2>&1 &")
