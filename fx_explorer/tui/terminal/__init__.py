"""The terminal around the app: clipboard, editor, keys that come late, a window that closes."""
