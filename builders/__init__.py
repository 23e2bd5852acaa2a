"""Makes wheels for a target: source, plan, preflight, engine, receipt."""
