import multiprocessing.shared_memory
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here

compile_here()
memory = multiprocessing.shared_memory.SharedMemory(create=True, size=64)
memory.close()
memory.unlink()
