"""The terminal's background colour: asked for once, so that a light terminal gets the light theme."""
