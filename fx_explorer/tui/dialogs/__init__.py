"""This package has the dialogs, which ask the user something, and list the choices."""
