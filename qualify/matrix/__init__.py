"""The matrix: the pin and the targets (asserted), and what was measured."""
