import os
import subprocess
import sys

import click

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


@click.command()
@click.option("--steps", default=1)
def main(steps):
    compile_here()
    subprocess.run(["echo", str(steps)], check=True)


main()
