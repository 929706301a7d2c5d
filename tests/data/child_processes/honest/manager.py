import multiprocessing
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here

if __name__ == "__main__":
    compile_here()
    with multiprocessing.Manager() as manager:
        print(manager.list([1, 2]))
