"""The lines of a text below a kernel (PTX, SASS, LLVM, MLIR), and the lines of its source."""
