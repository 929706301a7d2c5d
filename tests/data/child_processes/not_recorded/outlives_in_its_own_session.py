import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
code = f"import time; time.sleep(20); exec(open({CHILD!r}).read())"
subprocess.Popen([PYTHON, "-c", code], start_new_session=True)
