"""One publisher per module."""
