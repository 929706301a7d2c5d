"""The terminal app. Asks ``analysis`` and the session reader for everything it shows; never imports torch."""
