"""The libraries that draw plots, in the extra ``plots``."""

NO_LIBRARY = (
    "{library} is not installed, which draws this picture. Install it with: pip install "
    "'fx-explorer[plots]'"
)

SVG_SALT = "fx-explorer"
"""Makes the ids in an SVG the same each time, so that equal pictures are equal files."""
