"""One renderer of reports per module."""
