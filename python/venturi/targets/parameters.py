"""All settings, for those who do not read scenarios; and which of them are parameters of a cell.

The columns of the tables, their order, the flags, and the command that measures a cell again are made from
these. `make generate` writes settings.json from the models of a scenario's tables, which take half a second
to import.
"""

from __future__ import annotations

import json
from importlib import resources

from venturi.targets.setting import LEADING, Known

__all__ = ["CREDENTIALS", "PARAMETERS", "SETTINGS"]

SETTINGS = tuple(
    Known(**found) for found in json.loads((resources.files("venturi") / "targets/settings.json").read_text())
)
"""In the order in which the command line has them."""
CREDENTIALS = tuple(it.keyword for it in SETTINGS if it.credential)
"""Keywords by which a server is trusted and logged in to."""
_KINDS: dict[str, type] = {
    **{"int": int, "float": float, "str": str, "bool": bool},
    **{"list[int]": list[int], "list[str]": list[str]},
}
_FOUND = {it.cell: _KINDS[it.kind] for it in SETTINGS if it.cell is not None}
PARAMETERS = {name: _FOUND[name] for name in (*LEADING, *sorted(_FOUND.keys() - set(LEADING)))}
"""Of a cell, with the types of their values, in the order in which tables and labels name them."""
