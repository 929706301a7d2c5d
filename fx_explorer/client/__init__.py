"""Starts a worker, follows it, and keeps what it captured. Knows neither torch nor Textual."""

from fx_explorer.client.capture import Capture

__all__ = ["Capture"]
