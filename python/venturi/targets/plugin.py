"""What a target in Python is made of: docs/extend.md. Whoever writes one imports `venturi.plugin`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

INTERFACE = 1
"""The version of all this. It changes where a plugin that was written for the one before would not work."""


@dataclass(frozen=True)
class Parameter:
    """A setting of your target. Of a target `mine` the parameter `chunk` is the key `mine_chunk` of [target],
    the flag `--mine-chunk`, an axis, a column, and `trial.parameters["chunk"]`."""

    name: str
    help: str
    """For the flag, in a line."""
    kind: type = str
    """int, float, str or bool. Of an int, 64Ki and 10M are understood."""
    default: Any = None
    values: tuple[str, ...] = ()
    """All that a text may be."""


@dataclass(frozen=True)
class Trial:
    """What is to be measured."""

    url: str
    operation: Literal["get", "put"]
    streams: int
    threads: int
    """So many calls into your code run at a time."""
    rows_per_batch: int
    rows_per_stream: int | None
    """None: until a time is over, or until a get of your own rows ends."""
    timeout: float
    """Seconds after which a call that has not returned fails the trial."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Yours, by their names, with what holds where nothing was said."""
    rows: Any = None
    """The trial's rows: `rows.schema`, and `rows.stream(n)`, an Arrow stream of n rows of one stream, or
    without end. All streams have the same rows. None where a get moves rows of your own."""

    def stream(self) -> Any:
        """The rows of one stream, an object with `__arrow_c_stream__`. Without end where a time ends it."""
        return self.rows.stream(self.rows_per_stream)


class Writer(Protocol):
    """One stream of a put. Its methods are called one after the other, all in one thread."""

    def write(self, batch: Any) -> None:
        """Hands a batch over: an object with `__arrow_c_array__`, as `pyarrow.record_batch(batch)` takes it.
        When it returns, the batch counts as moved."""

    def finish(self) -> int | tuple[int, int]:
        """Waits until the other end has all of it. Answers how many rows that took. With the sum of
        `venturi.plugin.digest(batch)` over what arrived, values are compared as well."""


class Planned(Protocol):
    """One trial. `produce` is needed for gets, `consume` for puts. These may be there besides: `address`, a
    text; `rows`, how many rows all streams of a get of your own rows have; `pid`, the process of the other
    end, where it runs on this host; and `close()`, called once at the end, whatever happened."""

    def produce(self, stream: int) -> Any:
        """Before the clock: what gives a stream's batches, an object with `__arrow_c_stream__`. Asking it for
        the next batch is measured."""

    def consume(self, stream: int) -> Writer:
        """Before the clock: what takes a stream's batches. Its calls are measured."""


class Target(Protocol):
    """What the entry point names. `parameters` and `gets` may be left out."""

    interface: int
    """`INTERFACE` as it was when this was written."""
    name: str
    """For people: Arrow over a Unix socket."""
    operations: Sequence[str]
    """get, put, or both."""
    parameters: Sequence[Parameter]
    gets: Literal["trial", "own"]
    """What a get delivers: the rows of the trial, so that values can be compared, or rows of your own."""

    def plan(self, trial: Trial) -> Planned:
        """Before each trial. What it raises is the trial's error."""
