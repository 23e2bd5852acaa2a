"""One module per command of ``qualify``."""
