"""This package starts a worker, follows it, and stores what it captured. It imports neither torch
nor Textual.
"""

from fx_explorer.client.capture import Capture

__all__ = ["Capture"]
