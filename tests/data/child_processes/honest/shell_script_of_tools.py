import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here

compile_here()
script = "for i in 1 2 3; do date > /dev/null & done; wait; uname -a"
subprocess.run(["bash", "-c", script], check=True)
