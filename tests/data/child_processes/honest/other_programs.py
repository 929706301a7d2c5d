import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here

compile_here()
subprocess.run(["ls", "/"], stdout=subprocess.DEVNULL, check=True)
os.system("true")
os.system("echo a | sort | uniq > /dev/null")
