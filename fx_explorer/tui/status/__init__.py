"""The header, the pipeline bar and the sentence that says what waits."""
