"""The instrument put to the test: what is known beforehand must be what it finds. `docs/prove.md`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from venturi.measure.prove.outcome import Name, Proof

__all__ = ["SECONDS", "prove"]

SECONDS = 9.0
"""After which nothing is begun any more."""


def prove(
    url: str,
    settings: Mapping[str, Any] | None = None,
    only: Collection[Name] | None = None,
    note: Callable[[str, str], None] = lambda level, text: None,
) -> Iterator[Proof]:
    """Makes the proofs of a target one after the other. `settings`: how it is logged in to, by keyword.

    Raises VenturiError where the target cannot be planned for, its server does not start, or it lets no trial
    end well.
    """
    from venturi.common.errors import ScenarioError
    from venturi.measure.prove.bench import Bench
    from venturi.measure.prove.registry import proofs
    from venturi.targets.system import is_driver, is_plugin

    if url.startswith("empty://"):
        raise ScenarioError(f"{url}: nothing is moved there, so nothing can be proved of it")
    if is_plugin(url):
        raise ScenarioError(
            f"{url}: a target in Python tells its own counts, against which nothing can be held",
            hint="leave it out: what is the same for all targets is proved by: venturi prove",
        )
    if is_driver(url):
        raise ScenarioError(
            f"{url}: a driver's connections are its own, and nothing can come between them",
            hint="prove Venturi's own target of that database, as postgres://HOST/DATABASE",
        )
    with Bench(url, settings, note=note, seconds=SECONDS) as bench:
        bench.reach()
        yield from proofs(bench, only=lambda name: only is None or name in only)
