"""The views of time and memory: of compiling, of one call, of a step, of a bench."""
