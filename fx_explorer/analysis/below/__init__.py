"""Everything below the kernel: its code at each level down to the machine's, and what that says. Pure functions, no compiler.

``lines``: which line of the Triton source each line of a level was made from. ``chain``: that, with the links of the session.
``instructions``: what the machine is told to do. ``occupancy``: what limits a kernel's blocks. ``roofline``: memory or
arithmetic. ``passes``: MLIR pass by pass. ``candidates``: every configuration beside the others.
"""
