import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, PYTHON, compile_here

compile_here()
with tempfile.TemporaryDirectory() as folder:
    script = os.path.join(folder, "tool")
    with open(script, "w") as file, open(CHILD) as child:
        file.write(f"#!{PYTHON} -I\n{child.read()}")
    os.chmod(script, 0o755)
    subprocess.run([script], check=True)
