"""What ``fx-explorer mend`` says and does: one mend, all of them together, and recompiles."""
