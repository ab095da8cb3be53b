"""What a key of a scenario is beside its type, its bounds and its default, which its field in a model says.

From a field and its `Setting` come the flag and its help, the keyword of `venturi.run`, the parameter of a
cell with its column and its place in the schema, the option in a trial's spec, the command that measures a
cell again, and the tables in the docs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["workload", "amount", "parallel", "tuning"]

SEVERAL = " One value, or several: 1,2,4 or a range 1..8."
"""The end of the help of what is often an axis."""


@dataclass(frozen=True)
class Setting:
    """What stands beside a field's type, bounds and default."""

    help: str
    """For the flag, in a line."""
    kind: type | None = None
    """Of its value, as a cell and the tables have it, where its field's type does not say it."""
    panel: str = "Workload"
    """The group of flags in the help."""
    flag: str | None = None
    """Where it is not called as the key; empty where there is none."""
    alias: str | None = None
    """Another flag for it."""
    negative: str | None = None
    """What `--no-FLAG` stands for, of a setting that is a text."""
    commas: Literal["axis", "list", "text"] = "axis"
    """What commas in a flag's value do: separate the values of an axis, or those of a list that is one value;
    or they are part of a text."""
    form: Literal["once", "repeated", "pairs"] = "once"
    """How often the flag may stand; pairs are NAME=VALUE."""
    cell: str | None = ""
    """The parameter of a cell that it is: of the key's name; or None, where it changes no figure."""
    systems: Mapping[str, Any] = field(default_factory=dict)
    """Of an option: the systems that it means something to, each with what it does where the option is
    null."""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of an option: what it may be in a system, where others have more (the part before a colon)."""
    operations: Mapping[str, Any] = field(default_factory=dict)
    """The operations that alone have it, each with what holds where it is null."""
    role: Role = "tuning"
    """What part it has in a trial: what is moved, how much of it, how many at once, or how it is tuned."""
    spec: str | None = None
    """Its name among the options of a trial's spec, where it is not the key's."""
    ours: bool = False
    """Whether it is of a server that is started for the run: the trial's spec does not have it."""
    credential: bool = False
    """Whether a server is trusted or logged in to by it."""
    doc: str = ""
    """For the docs, in Markdown: what it means."""
    default: str | None = None
    """For the docs: what holds where nothing is said, if the field's default does not say it."""
    foreign: bool = False
    """Whether imported results have other values in it: what another tool calls the same."""


@dataclass(frozen=True)
class SettingRecord:
    """A setting as programs need it that do not read scenarios: without its type's checks."""

    table: str
    """Of the scenario; empty for what is said beside the tables."""
    key: str
    help: str
    kind: str
    """As the type is spelled: int, list[str]."""
    panel: str
    flag: str
    alias: str | None
    negative: str | None
    commas: str
    form: str
    cell: str | None
    credential: bool
    role: Role = "tuning"

    @property
    def keyword(self) -> str:
        """How Python calls it, which is how the command line does."""
        return self.flag.removeprefix("--").replace("-", "_")


def setting_record(table: str, key: str, it: Setting) -> SettingRecord:
    """A setting of this table and key as programs need it."""
    kind = "str" if it.kind is None else str(it.kind) if "[" in str(it.kind) else it.kind.__name__
    flag = "--" + key.replace("_", "-") if it.flag is None else it.flag
    cell = key if it.cell == "" else it.cell
    texts = (it.help, kind, it.panel, flag, it.alias, it.negative, it.commas, it.form)
    return SettingRecord(table, key, *texts, cell, it.credential, it.role)


LEADING = (
    "operation", "place", "target", "data", "columns", "values", "hosts", "partitions", "encoders",
    "decoders", "on", "loaders", "link", "backplane", "cross", "streams", "threads", "connections",
    "in_flight", "rows_per_batch", "rows_per_stream", "bytes_per_stream", "duration_ns", "rate",
    "compression", "window", "verify", "ack", "handicap",
)  # fmt: skip
"""Parameters of a cell that tables and labels name first, in this order; the others follow by name."""
