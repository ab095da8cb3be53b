"""A run, read once, from which every report is made; and cells that a user names, or that stand for all."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from venturi.analysis import wording
from venturi.analysis.advice import Advice, stragglers
from venturi.analysis.advice.collect import advise, several_servers
from venturi.analysis.advice.stragglers import Straggler
from venturi.analysis.cells import hosts
from venturi.analysis.cells import summary as cells_module
from venturi.analysis.cells.figures import by_key, main_rate, per_second
from venturi.analysis.cells.limits import limits
from venturi.analysis.cells.summary import Cell, best, by_operation, speed, varying
from venturi.analysis.models import fits, over_links, splits
from venturi.analysis.models.batch_cost import BatchCost, batch_costs, packings
from venturi.analysis.models.fits import Fits
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.models.splits import Convergence
from venturi.analysis.verdict import findings as findings_module
from venturi.analysis.verdict import judge as verdict_module
from venturi.analysis.verdict.types import Finding, Verdict
from venturi.common import toml_text
from venturi.common.conditions import Condition
from venturi.common.errors import ScenarioError, VenturiError
from venturi.engine.record import Trial, is_imported
from venturi.store.directory import RunDirectory
from venturi.store.open import open_run
from venturi.targets.system import is_charrow

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Results:
    """The lines of a run and what is derived from them, computed when asked for."""

    directory: RunDirectory
    """Where it was read from; of a reference run no directory, see `saved`."""
    records: list[Trial] = field(repr=False)
    probes: list[dict[str, Any]] = field(repr=False)

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def environment(self) -> dict[str, Any]:
        return self.directory.environment

    @property
    def scenario(self) -> str:
        """The resolved scenario, TOML text; empty where the run has none."""
        return self.directory.scenario_text()

    @cached_property
    def cells(self) -> list[Cell]:
        return cells_module.summarise(self.records, self.probes)

    @cached_property
    def samples(self) -> pa.Table:
        """All 100 ms counters, with a column `trial`."""
        return self.directory.samples()

    @cached_property
    def advice(self) -> list[Advice]:
        behind = [one for found in self.stragglers.values() for one in found]
        command = self.environment.get("command")
        found = advise(self.cells, self.records, self.probes, behind, command)
        return [*found, *several_servers(self.environment)]

    @property
    def two_speeds(self) -> list[str]:
        """That trials run at two speeds, where they do: every figure with a point or a box a cell says so."""
        return [one.finding for one in self.advice if one.kind == "two-speeds"]

    @cached_property
    def stragglers(self) -> dict[str, list[Straggler]]:
        """Hosts well behind the others, by the name of the cell; cells without any are left out."""
        boots = stragglers.machines(self.environment)
        found = {cell.name: stragglers.stragglers(cell, boots) for cell in self.cells}
        return {name: behind for name, behind in found.items() if behind}

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The narrowest place of each cell, by the cell's name."""
        return verdict_module.verdicts(self.cells, self.environment, packings(limits(self.probes)))

    @cached_property
    def findings(self) -> list[Finding]:
        """What the sweep says as a whole, the most telling first."""
        return findings_module.findings(self.cells, self.verdicts, self.environment)

    @cached_property
    def fits(self) -> Fits:
        """Models: Hockney's line over sizes, scaling laws over the other axes, what matters and what does
        not."""
        return fits.build(self.cells)

    @cached_property
    def batch_costs(self) -> list[BatchCost]:
        """What a batch and a row cost, where an upsert's rows per batch were varied."""
        return batch_costs(self.cells)

    @cached_property
    def link_fits(self) -> list[LinkFit]:
        """Laws over links, one a setting; empty where links were not varied."""
        return over_links.build(self.cells)

    @cached_property
    def link_crossings(self) -> list[Crossing]:
        """Where one setting passes another over links, of those settings that a report tells of."""
        return over_links.crossings(self.link_fits[: over_links.MOST_GROUPS])

    @cached_property
    def place_rows(self) -> list[hosts.Row]:
        """Local and remote side by side; empty where the run has not both places."""
        return hosts.place_rows(self.cells)

    @cached_property
    def efficiency(self) -> list[hosts.Scaled]:
        """What each host does, over numbers of hosts; empty where these were not varied."""
        return hosts.scaled(self.cells)

    @cached_property
    def convergences(self) -> list[Convergence]:
        """One amount divided over more and more streams; empty where a run has one place and one host: then
        it is one sweep among others."""
        if not self.place_rows and not any(hosts.has_several_hosts(cell) for cell in self.cells):
            return []
        return splits.convergences(self.cells)

    @property
    def failures(self) -> list[Trial]:
        """Trials that did not end well, warm-ups too: a warm-up that fails is a finding."""
        return [r for r in self.records if r.outcome not in ("ok", "")]

    @cached_property
    def telling(self) -> dict[str, list[str]]:
        """By operation the parameters that tell its cells apart; asked for by every label of every cell."""
        return {o: cells_module.varying(cells) for o, cells in cells_module.by_operation(self.cells).items()}

    @property
    def places(self) -> list[str]:
        return list(dict.fromkeys(str(p) for c in self.cells if (p := c.parameters.get("place")) is not None))

    @cached_property
    def peers(self) -> list[str]:
        """What answered: software and address of each target, as the trials recorded it."""
        seen: dict[str, None] = {}
        for record in self.records:
            address = record.target.address
            if address:
                software = record.target.software or "unnamed server"
                seen[f"{software} at {address}"] = None
        return list(seen)

    @property
    def started(self) -> datetime | None:
        """When the run began (UTC), None where nobody wrote it down."""
        at = self.environment.get("started_unix_ns")
        if not isinstance(at, int) or at <= 0:
            return None
        return datetime.fromtimestamp(at / 1e9, tz=UTC)

    @property
    def default_reference(self) -> str | None:
        """The published figures to lay over where the scenario says `reference = true`, None where it does
        not.

        Cartesius for runs between hosts, the laptop for all others: each was measured that way. Of upserts
        the system of their target's kind, of ingests Akumuli's; CHSpark where queries are shared.
        """
        try:
            scenario = toml_text.parse(self.scenario, "scenario.toml")
        except ScenarioError:
            # Nothing else is read from it; a damaged one costs these lines and no report.
            return None
        if scenario.get("reference") is not True:
            return None
        if self.cells and all(c.in_rows for c in self.cells):
            if all(c.noun == "point" for c in self.cells):
                return "akumuli"
            targets = [str(c.parameters.get("target") or "") for c in self.cells]
            return "cassandra" if all(t.startswith("cassandra") for t in targets) else "memsql"
        if self.cells and all(is_charrow(str(c.parameters.get("target") or "")) for c in self.cells):
            return "chspark"
        return "cartesius" if len(self.places) > 1 or "remote" in self.name else "macbook"

    @property
    def imported(self) -> bool:
        """Whether every trial was measured by another tool."""
        return bool(self.records) and all(map(is_imported, self.records))

    @property
    def measured(self) -> int:
        return sum(not r.warmup for r in self.records)


def load(path: str | os.PathLike[str]) -> Results:
    """Reads a run. `path` and errors as in `open_run`."""
    directory = open_run(path)
    return Results(directory, directory.records(), directory.ceiling_records())


def find(results: Results, name: str) -> Cell:
    """The cell that `name` means: `best`, a cell's name or the begin of one, or PARAMETER=VALUE,...

    Raises `VenturiError` where it is none, or more than one.
    """
    if not results.cells:
        raise VenturiError(f"{results.name}: there are no cells in this run")
    if name == "best":
        return best(results.cells) or results.cells[0]
    exact = [c for c in results.cells if c.name == name]
    begun = [c for c in results.cells if c.name.startswith(name)]
    found = exact or (_by_parameters(results, name) if "=" in name else begun)
    if len(found) == 1:
        return found[0]
    if not found:
        raise VenturiError(
            f"--cell {name}: there is no such cell in this run",
            hint=f"name one as {example(results.cells)}, or by its name: {_some(results.cells)}",
        )
    raise VenturiError(
        f"--cell {name}: {len(found)} cells fit",
        hint=f"name one of them: {_some(found)}; or add what tells it apart: {example(found)}",
    )


def _some(cells: Sequence[Cell], most: int = 4) -> str:
    rest = f", ... (venturi show RUN --format csv has all {len(cells)})" if len(cells) > most else ""
    return ", ".join(wording.plain(c.name) for c in cells[:most]) + rest


def example(cells: Sequence[Cell]) -> str:
    """The first of these cells by what tells it from the others, as `find` takes it; by its name where no
    parameters tell, or where they would need quotes."""
    one = cells[0]
    names = (["operation"] if len({c.operation for c in cells}) > 1 else []) + varying(cells)
    left, said = list(cells), list[str]()
    for name in names:
        value = one.parameters.get(name)
        rest = [c for c in left if c.parameters.get(name) == value]
        if len(rest) < len(left) and re.fullmatch(r"[\w.:/-]+", text := _typed(value)):
            left, said = rest, [*said, f"{name}={text}"]
    return ",".join(said) if len(left) == 1 else wording.plain(one.name)


def _typed(value: object) -> str:
    """A parameter's value as it is typed after `=`."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _by_parameters(results: Results, text: str) -> list[Cell]:
    wanted = []
    for part in text.split(","):
        key, separator, value = part.partition("=")
        if not separator or not any(key.strip() in c.parameters for c in results.cells):
            known = sorted({n for c in results.cells for n in c.parameters})
            raise VenturiError(
                f"--cell {text}: {part.strip()!r} names no parameter of this run",
                hint=f"PARAMETER=VALUE, parameters: {', '.join(known)}",
            )
        wanted.append((key.strip(), value.strip()))
    return [c for c in results.cells if all(_is(c.parameters.get(k), v) for k, v in wanted)]


def _is(value: object, text: str) -> bool:
    """Whether a parameter is what was typed: `4096` and `4,096` as well as `4k` for 4000; `none` for null."""
    if value is None:
        return text.lower() in ("none", "null", "-")
    if isinstance(value, bool):
        return text.lower() in (("yes", "true") if value else ("no", "false"))
    if isinstance(value, int | float):
        for suffix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)):
            if text.endswith(suffix):
                try:
                    return float(text.removesuffix(suffix).replace("_", "")) * factor == float(value)
                except ValueError:
                    return False
    return str(value) == text


def evenly(found: Sequence[Any], most: int) -> list[Any]:
    """At most so many of these: the first, the last and, evenly, some between."""
    step = (len(found) - 1) / (most - 1)
    return list(found) if len(found) <= most else [found[round(i * step)] for i in range(most)]


def cells_where(cells: Sequence[Cell], where: Sequence[str] | None, run: str) -> list[Cell]:
    """The cells for which all conditions hold, as "streams <= 8"; a parameter that a cell has not is null.

    Raises `VenturiError` for a condition that is none, and where no cell is left.
    """
    kept = list(cells)
    names = {name for cell in cells for name in cell.parameters}
    for text in where or []:
        try:
            condition = Condition(text)
            kept = [cell for cell in kept if condition(dict.fromkeys(names) | cell.parameters)]
        except ValueError as error:
            raise VenturiError(f"--where: {error}", hint='as in --where "streams <= 8"') from None
    if not kept:
        raise VenturiError(
            f"{run}: there are no trials" if not cells else f"{run}: --where leaves no cell",
            hint=f"see what was measured: venturi show {run}",
        )
    return kept


def representative(cells: Sequence[Cell], most: int) -> list[Cell]:
    """At most `most` cells: all, else the fastest of each operation, place and stream count, thinned
    evenly."""
    known = [c for c in cells if speed(c, cells).measured]
    if len(known) <= most:
        return known
    groups = by_key(((c.operation, c.parameters.get("place"), c.parameters.get("streams")), c) for c in known)
    chosen = [b for members in groups.values() if (b := best(members))]
    return evenly(chosen, most)


def fastest_of_places(cells: Sequence[Cell]) -> list[Cell]:
    """The fastest cell of each operation and place."""
    ordered = (cell for members in by_operation(cells).values() for cell in members)
    groups = by_key(((c.operation, c.parameters.get("place")), c) for c in ordered)
    return [top for members in groups.values() if (top := best(members)) is not None]


def choice_note(shown: int, cells: Sequence[Cell]) -> str:
    total = sum(speed(c, cells).measured for c in cells)
    return "" if shown >= total else f" {shown} of {total} cells are shown: the fastest of each stream count."


def middle_trial(cell: Cell) -> Any:
    """The trial whose throughput is the median (the lower of the two middle ones)."""
    ranked = sorted(cell.records, key=lambda r: main_rate(r) or per_second(r, "rows") or 0.0)
    return ranked[(len(ranked) - 1) // 2] if ranked else None
