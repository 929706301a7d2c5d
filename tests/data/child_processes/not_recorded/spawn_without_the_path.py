import multiprocessing
import os
import runpy
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import CHILD, compile_here


def child():
    runpy.run_path(CHILD)


if __name__ == "__main__":
    compile_here()
    del os.environ["PYTHONPATH"]
    process = multiprocessing.get_context("spawn").Process(target=child)
    process.start()
    process.join()
