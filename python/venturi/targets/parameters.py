"""All settings, for those who do not read scenarios; and which of them are parameters of a cell.

The columns of the tables, their order, the flags, and the command that measures a cell again are made from
these. `make generate` writes settings.json from the models of a scenario's tables, which take half a second
to import.
"""

from __future__ import annotations

import json
from importlib import resources

from venturi.targets.setting import LEADING, Role, SettingRecord
from venturi.targets.system import PLUGINS

_TEXT = (resources.files("venturi") / "targets/settings.json").read_text()
_OWN = tuple(SettingRecord(**fields) for fields in json.loads(_TEXT))
SETTINGS = (*_OWN, *(it for plugin in PLUGINS.values() for it in plugin.records))
"""In the order in which the command line has them; those of plugins last."""
CREDENTIALS = tuple(it.keyword for it in SETTINGS if it.credential)
"""Keywords by which a server is trusted and logged in to."""
_KINDS: dict[str, type] = {
    **{"int": int, "float": float, "str": str, "bool": bool},
    **{"list[int]": list[int], "list[str]": list[str]},
}
_FOUND = {it.cell: _KINDS[it.kind] for it in _OWN if it.cell is not None}
PARAMETERS = {name: _FOUND[name] for name in (*LEADING, *sorted(_FOUND.keys() - set(LEADING)))}
"""Of a cell, with the types of their values, in the order in which tables and labels name them. Those of
plugins are not among them: a run is read by the same columns where its plugin is not installed."""
_ROLES = {it.cell: it.role for it in _OWN}


def _of_role(*roles: Role) -> tuple[str, ...]:
    return tuple(name for name in PARAMETERS if _ROLES[name] in roles)


AMOUNT = _of_role("amount")
"""Parameters that only say how much is moved: they show what starting costs."""
WORKLOAD = frozenset(_of_role("workload", "amount"))
"""Parameters that say what is moved and where to. All others are settings."""
PARALLEL = _of_role("parallel")
"""Parameters that say how many work at once: twice as many should move twice as much, until something is
full."""
