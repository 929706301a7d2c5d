"""Which FX node each line of generated code computes, seen while Inductor writes it."""
