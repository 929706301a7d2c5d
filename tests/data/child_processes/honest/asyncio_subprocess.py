import asyncio
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from parts import compile_here


async def main():
    process = await asyncio.create_subprocess_exec("echo", "hello")
    await process.wait()


compile_here()
asyncio.run(main())
