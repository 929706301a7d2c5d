import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
os.system(f"env -i setsid sh -c '{PYTHON} -I {CHILD}' > /dev/null 2>&1 &")
time.sleep(8)
