"""Results of other tools as runs: one file a foreign format, text in, records out.

Each format's module has `detect(text) -> bool` and `parse(text, name) -> Parsed`; docs/import.md says what
maps to what. `record` makes lines of trials.jsonl of what they found.
"""
