"""Readers of archive, ELF, cubin, fat binary and PTX: the standard library alone."""
