"""What runs a trial: its spec, the core behind it, and a model of it."""
