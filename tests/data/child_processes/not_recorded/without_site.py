import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
paths = [path for path in sys.path if "site-packages" in path]
code = f"import sys; sys.path += {paths!r}; exec(open({CHILD!r}).read())"
subprocess.run([PYTHON, "-S", "-c", code], check=True)
