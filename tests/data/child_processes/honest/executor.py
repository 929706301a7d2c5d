import concurrent.futures
import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


def square(number):
    return number * number


if __name__ == "__main__":
    compile_here()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as executor:
        print(list(executor.map(square, range(4))))
