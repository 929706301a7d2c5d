"""What ``fx-explorer fix`` says and does: one fix, all of them together, and recompiles."""
