import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


def square(number):
    return number * number


if __name__ == "__main__":
    compile_here()
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        print(pool.map(square, range(4)))
