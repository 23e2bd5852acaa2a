"""METADATA, entry points, licences, size and stray files."""
