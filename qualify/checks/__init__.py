"""Checks: pure functions from facts, target and policy to findings; one module per family."""
