"""The worker process: finds the user's target, runs it under the recorder, says how it ended.
Nobody imports it.
"""
