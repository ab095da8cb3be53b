"""A run as people read it: terminal, HTML, figures, Markdown, tables, the seeds' own lines."""
