"""Outputs to the letter, so that a change of words shows in review: tests/data/golden/.

After a wanted change: VENTURI_UPDATE=1 pytest tests/unit, and read the difference before it is committed.
"""

from __future__ import annotations

import os
from typing import Any

from support.run import DATA

__all__ = ["kept", "known"]


def kept(name: str, text: str) -> None:
    path = DATA / "golden" / f"{name}.txt"
    if os.environ.get("VENTURI_UPDATE") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def known(value: Any) -> Any:
    """What is known of it: without nulls and what is empty."""
    if isinstance(value, dict):
        found = {name: known(one) for name, one in value.items()}
        return {name: one for name, one in found.items() if one not in (None, {}, [])}
    return [known(one) for one in value] if isinstance(value, list) else value
