"""The truth lane: what a session says beside what a process without fx-explorer shows."""
