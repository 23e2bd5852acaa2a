"""Claims of CPython's stable ABI against the symbols that a binary takes from the interpreter."""
