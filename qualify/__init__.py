"""Reads wheels, judges them, measures, records and publishes."""
