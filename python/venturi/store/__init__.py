"""The run directory: written, read as tables, imported into."""
