"""The candidate against a control wheel: what was lost."""
