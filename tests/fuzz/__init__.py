"""Readers and judge against hostile input: seeds, a mutator that knows the formats, and what must hold for any bytes.

``tests/property/test_fuzz.py`` runs a short round of it with hypothesis; ``python -m tests.fuzz --minutes N`` a long
one with atheris (libFuzzer, guided by coverage), one target after the other.
"""
