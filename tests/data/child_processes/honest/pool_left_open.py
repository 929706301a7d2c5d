import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


def square(number):
    return number * number


compile_here()
pool = multiprocessing.get_context("fork").Pool(2)
print(pool.map(square, range(4)))
