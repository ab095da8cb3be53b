"""A scenario: TOML file and flags, merged and validated. The language is docs/scenarios.md.

Defaults < file < flags: each is a `Layer`, a tree of tables, and `merge` is the one
place where a later layer wins. Errors name the layer's own spelling: file, line and
field, or the flag.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from venturi.common.credentials import INSTEAD, carries_secret, named
from venturi.common.errors import ScenarioError
from venturi.plan.layers import Layer, Path_, place_in, table_of
from venturi.plan.settings import Hosts, Run, Target
from venturi.plan.workload import Workload

Wrong = Callable[..., ScenarioError]
"""`Scenario.wrong`: makes the error about a key of a text, `key: what is wrong`, and of a hint."""
_TABLE_OF = {
    key: table
    for table, model in (("run", Run), ("hosts", Hosts), ("target", Target), ("workload", Workload))
    for key in model.model_fields
} | {"exclude": "matrix"}
# A file system takes 255 bytes; the run's directory has the time in its name too.
MOST_NAME = 200


@dataclass(frozen=True)
class Scenario:
    """A validated scenario; its cells are made by `venturi.plan.matrix.cells`."""

    name: str
    target: Target
    workload: Workload
    run: Run
    hosts: Hosts = field(default_factory=Hosts)
    # By what its streams are placed on several hosts, ray or spark; None: this process runs all.
    on: str | None = None
    # Each cell in this process too.
    beside: bool = False
    # Whether links are made for its trials, and whether they lead to X://remote alone, so that X://local is
    # beside the client: as it was loaded, whichever of its cells are left.
    over_link: bool = False
    to_remote: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    # Axis -> its values, validated, in the order they were written.
    axes: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    zips: Sequence[Sequence[str]] = ()
    exclude: Sequence[str] = ()
    # Points beside the product of the axes: tables of axes that advance together.
    also: Sequence[Mapping[str, Sequence[Any]]] = ()
    description: str = ""
    reference: bool = False
    layers: Sequence[Layer] = ()
    # What was done to it that its author may not expect, for the user to read.
    notes: Sequence[str] = field(default=(), compare=False)

    def where(self, *path: str) -> str:
        """The last layer's spelling of a key, for errors."""
        return place_in(self.layers, path)

    def wrong(self, text: str, hint: str | None = None) -> ScenarioError:
        """An error whose text begins with a key of a table, which is named as its user wrote it."""
        key, _, problem = text.partition(": ")
        axis = "target" if key == "url" else key
        path = ("matrix", axis) if axis in self.axes else (_TABLE_OF[key], key)
        return ScenarioError(f"{self.where(*path)}: {problem}", hint)


def still_zipped(layers: Sequence[Layer], zips: Sequence[Sequence[str]]) -> list[str]:
    """Which axes of a higher layer advance with others because a lower one zipped them."""
    notes = []
    for number, layer in reversed(list(enumerate(layers))):
        if layer.has(("matrix", "zip")):
            for group in zips:
                if any(above.has(("matrix", axis)) for above in layers[number + 1 :] for axis in group):
                    notes.append(
                        f"{' and '.join(group)} advance together, as {layer.place(('matrix', 'zip'))} says; "
                        "--set matrix.zip=[] makes a product of them"
                    )
            break
    return notes


def check_secrets(layer: Layer, found: Any, path: Path_) -> None:
    """Whether a text of any key, as a description or a statement, has a secret in it."""
    if isinstance(found, Mapping):
        for key, value in found.items():
            check_secrets(layer, key, path)
            check_secrets(layer, value, (*path, str(key)))
    elif isinstance(found, list | tuple):
        for value in found:
            check_secrets(layer, value, path)
    elif isinstance(found, str) and carries_secret(found):
        raise ScenarioError(
            f"{layer.place(path)}: has a secret in it, which would be stored with the run",
            hint=f"{INSTEAD}; a user's password is told by user and password_env",
        )
    named(found)


def check_addresses(layer: Layer) -> None:
    """Whether flags or keywords name the addresses in one way."""
    label = next(iter(table_of(layer.tree, "places")), None)
    # A resolved scenario, a file or a tree, has both, of which the places count.
    typed = layer.text is None and layer.name != "scenario"
    if typed and label is not None and "url" in table_of(layer.tree, "target"):
        one, other = layer.place(("places", label)), layer.place(("target", "url"))
        raise ScenarioError(
            f"{one} and {other}: both say where trials go; keep one of them",
            hint=f"to compare addresses give each a place: {one}=URL --place NAME=URL",
        )


def with_nul(tree: Any) -> Path_ | None:
    """Where a text has a NUL, which no path, URL or name can have."""
    if isinstance(tree, str):
        return () if "\0" in tree else None
    if isinstance(tree, list):
        return next((() for inner in tree if with_nul(inner) is not None), None)
    for key, inner in tree.items() if isinstance(tree, Mapping) else ():
        below = () if "\0" in str(key) else with_nul(inner)
        if below is not None:
            return (str(key), *below)
    return None
