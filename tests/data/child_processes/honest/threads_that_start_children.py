import concurrent.futures
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here

compile_here()
with concurrent.futures.ThreadPoolExecutor(4) as executor:
    list(executor.map(subprocess.run, [["true"]] * 20))
