import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


def work():
    print("spawned")


if __name__ == "__main__":
    compile_here()
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
