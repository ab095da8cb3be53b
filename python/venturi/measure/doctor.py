"""What on this machine would spoil a measurement."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from venturi.common.environment import chosen, cpu_times, memory, open_files, read, virtualised
from venturi.common.errors import VenturiError
from venturi.common.processes import Busy, busiest, ticks
from venturi.common.runtime import load_core
from venturi.common.texts import plain
from venturi.common.units import percent
from venturi.targets.system import PLUGINS, REFUSED

# How long the load of the machine is watched.
_WATCH_SECONDS = 1.0
_MOST_BUSY = 0.05
_MOST_STEAL = 0.01
_MOST_NAMED = 5
_UNSEEN = "no process that can be seen from here does it: look outside of this container, or for short ones"
_LEAST_FILES = 1024
_LEAST_BUFFER = 4 * 2**20
_LEAST_MEMORY = 2 * 10**9
_SLOWEST_CLOCK_NS = 100.0


@dataclass(frozen=True)
class Finding:
    """One check: `state` is ok, warning, or unknown; `advice` the cause and the next command."""

    check: str
    state: Literal["ok", "warning", "unknown"]
    text: str
    advice: str = ""


def doctor() -> list[Finding]:
    """Makes all checks; takes a second, in which the load is watched."""
    return [finding for check in CHECKS for finding in check()]


def _finding(check: str, text: str | None, good: bool = True, advice: str = "") -> Finding:
    """Unknown if there is no text; a warning, with advice, if it is not good."""
    if text is None:
        return Finding(check, "unknown", "not available on this system")
    return Finding(check, "ok", text) if good else Finding(check, "warning", text, advice)


def _plugins() -> Iterator[Finding]:
    for scheme, plugin in PLUGINS.items():
        yield Finding("plugin", "ok", f"{scheme}:// of {plugin.package}")
    for scheme, why in REFUSED.items():
        yield Finding("plugin", "warning", f"{scheme}:// cannot be used", why)


def _governor() -> Iterator[Finding]:
    paths = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    found = {path.read_text().strip() for path in paths}
    advice = (
        "cores change their frequency while they are measured; sudo cpupower frequency-set -g performance"
    )
    yield _finding("governor", ", ".join(sorted(found)) or None, found == {"performance"}, advice)


def _load() -> Iterator[Finding]:
    began, before, each = time.monotonic(), cpu_times(), ticks()
    time.sleep(_WATCH_SECONDS)
    after, now = cpu_times(), ticks()
    working = busiest(each, now, time.monotonic() - began)
    if before is None or after is None:
        yield from (_finding(check, None) for check in ("load", "steal"))
        return
    spent = {name: after[name] - before[name] for name in after}
    total = max(sum(spent.values()), 1)
    busy = 1 - (spent["idle"] + spent.get("iowait", 0) + spent.get("steal", 0)) / total
    load = f"{percent(busy)} of all CPUs busy, load average {os.getloadavg()[0]:.2f}"
    if working:
        load += f"; {_named(working)}"
    yield _finding("load", load, busy <= _MOST_BUSY, "end that work, or wait for it" if working else _UNSEEN)
    steal = spent.get("steal", 0) / total
    text = f"{percent(steal, 1)} of CPU time taken by the hypervisor"
    advice = "other guests use this host; use more repeats, or a dedicated host"
    yield _finding("steal", text, steal <= _MOST_STEAL, advice)


def _named(working: Sequence[Busy]) -> str:
    """`mariadbd (pid 4711) 0.98 cores, stress (pid 12) 0.50`."""
    shown = [f"{plain(one.name)} (pid {one.pid}) {one.cores:.2f}" for one in working[:_MOST_NAMED]]
    more = f" and {len(working) - _MOST_NAMED} more" if len(working) > _MOST_NAMED else ""
    return f"{shown[0]} cores{', ' if shown[1:] else ''}{', '.join(shown[1:])}{more}"


def _limits() -> Iterator[Finding]:
    limit = open_files()
    text = None if limit is None else f"{limit} at most"
    yield _finding(
        "open files", text, (limit or 0) >= _LEAST_FILES, "many streams need more; ulimit -n 65536"
    )
    for name in ("tcp_rmem", "tcp_wmem"):
        text = read(f"/proc/sys/net/ipv4/{name}")
        most = int(text.split()[-1]) if text is not None else 0
        shown = f"up to {most / 2**20:.1f} MiB a socket" if text is not None else None
        advice = "one stream over a long or fast link is throttled; "
        advice += f'sudo sysctl -w net.ipv4.{name}="4096 131072 16777216"'
        yield _finding(name, shown, most >= _LEAST_BUFFER, advice)
    found = read("/proc/sys/net/ipv4/tcp_congestion_control")
    # No warning: over long paths it is the better choice.
    paced = ", which paces what is sent: within this host, and over short and fast links, cubic may be faster"
    yield _finding("congestion control", found + paced if found == "bbr" else found)


def _memory() -> Iterator[Finding]:
    found = memory()
    free, total = found["available"], found["total"]
    good, text = (free or 0) >= _LEAST_MEMORY, None
    if free is not None:
        text = f"{free / 1e9:.1f} of {(total or 0) / 1e9:.1f} GB" if good else f"{free / 1e9:.1f} GB"
        text += " available"
    yield _finding("memory", text, good, "little room; find users by: free -h; top")
    swap, swap_free, text = found["swap_total"], found["swap_free"], None
    if swap is not None and swap_free is not None:
        good = swap - swap_free <= swap * 0.1
        text = f"{(swap - swap_free) / 1e9:.1f} GB in use"
        text = ("not in use" if swap else "none") if good else text
    yield _finding("swap", text, good, "memory was short; sudo swapoff -a, then swapon -a")
    text = chosen(read("/sys/kernel/mm/transparent_hugepage/enabled"))
    # Neither choice is wrong; runs made under different ones must not be compared unseen.
    yield _finding("huge pages", None if text is None else f"transparent huge pages: {text}")


def _machine() -> Iterator[Finding]:
    found = virtualised()
    # No warning: it cannot be mended from here, and a steady guest measures well.
    guest = f"a virtual machine ({found}); its neighbours may be felt, watch steal"
    bare = "bare metal, as far as the CPU tells"
    yield _finding("virtual", {None: None, "no": bare}.get(found, guest))
    text = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    good = text in ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page")
    yield _finding("clock", text, good, "reading it takes a system call; boot with clocksource=tsc")


def _instrument() -> Iterator[Finding]:
    try:
        found = load_core().instrument()
    except VenturiError as error:
        yield Finding("instrument", "warning", error.message, error.hint or "")
        return
    found = json.loads(found) if isinstance(found, str) else found
    cost = found.get("clock_read_ns") if isinstance(found, dict) else None
    if cost is None:
        yield Finding("instrument", "unknown", "its cost is not known")
        return
    advice = "stages of small batches get inexact; raise --rows-per-batch"
    yield _finding("instrument", f"reading the clock costs {cost:.1f} ns", cost <= _SLOWEST_CLOCK_NS, advice)


def _databases() -> Iterator[Finding]:
    from venturi.servers import throwaway

    found, missing, advice = [], [], []
    for server in throwaway.SERVERS:
        try:
            server().find()
            found.append(server.name)
        except VenturiError as error:
            missing.append(server.name)
            advice.append(error.hint or error.message)
    # Nobody needs all of them, so none that is missing is worth a warning.
    text = f"venturi serve can start {', '.join(found) or 'none'}"
    if missing:
        text += f"; not {', '.join(missing)}"
    yield Finding("databases", "ok", text, "; ".join(advice))


def _links() -> Iterator[Finding]:
    from venturi.netlab.laboratory import Laboratory

    try:
        Laboratory().close()
    except VenturiError as error:
        # Whoever measures without one does not miss it.
        yield Finding("links", "ok", error.message, error.hint or "")
        return
    yield Finding("links", "ok", "--link can make them here")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _governor,
    _load,
    _limits,
    _memory,
    _machine,
    _instrument,
    _databases,
    _links,
    _plugins,
)
