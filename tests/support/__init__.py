"""Makers of small wheels, ELF files, cubins and fat binaries, all in memory.

What they write follows the same rules as the readers but shares no code with them, so that a mistake in one shows in
the other.
"""
