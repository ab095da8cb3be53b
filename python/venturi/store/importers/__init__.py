"""Results of other tools as runs: foreign formats by family, text in, records out.

Each is a `Format` with `detect(text) -> bool` and `parse(text, name) -> Parsed`; docs/import.md says what
maps to what. `record` makes lines of trials.jsonl of what they found.
"""
