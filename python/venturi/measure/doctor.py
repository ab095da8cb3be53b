"""What on this machine would spoil a measurement."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from venturi.common.units import percent

if TYPE_CHECKING:
    from venturi.common.processes import Busy

__all__ = ["Finding", "doctor"]

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
    """Looks for it, check by check; takes a second, in which the load is watched."""
    return [finding for check in CHECKS for finding in check()]


def _plugins() -> Iterator[Finding]:
    from venturi.targets.system import PLUGINS, REFUSED

    for scheme, plugin in PLUGINS.items():
        yield Finding("plugin", "ok", f"{scheme}:// of {plugin.package}")
    for scheme, why in REFUSED.items():
        yield Finding("plugin", "warning", f"{scheme}:// cannot be used", why)


def _unknown(check: str) -> Iterator[Finding]:
    yield Finding(check, "unknown", "not available on this system")


def _governor() -> Iterator[Finding]:
    paths = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    found = {path.read_text().strip() for path in paths}
    if not found:
        yield from _unknown("governor")
        return
    text = ", ".join(sorted(found))
    if found == {"performance"}:
        yield Finding("governor", "ok", text)
        return
    yield Finding(
        "governor",
        "warning",
        text,
        "cores change their frequency while they are measured; sudo cpupower frequency-set -g performance",
    )


def _load() -> Iterator[Finding]:
    from venturi.common.environment import cpu_times
    from venturi.common.processes import busiest, ticks

    began, before, each = time.monotonic(), cpu_times(), ticks()
    time.sleep(_WATCH_SECONDS)
    after, now = cpu_times(), ticks()
    working = busiest(each, now, time.monotonic() - began)
    if before is None or after is None:
        yield from _unknown("load")
        yield from _unknown("steal")
        return
    spent = {name: after[name] - before[name] for name in after}
    total = max(sum(spent.values()), 1)
    busy = 1 - (spent["idle"] + spent.get("iowait", 0) + spent.get("steal", 0)) / total
    load = f"{percent(busy)} of all CPUs busy, load average {os.getloadavg()[0]:.2f}"
    if working:
        load += f"; {_named(working)}"
    if busy > _MOST_BUSY:
        advice = "end that work, or wait for it" if working else _UNSEEN
        yield Finding("load", "warning", load, advice)
    else:
        yield Finding("load", "ok", load)
    steal = spent.get("steal", 0) / total
    text = f"{percent(steal, 1)} of CPU time taken by the hypervisor"
    if steal > _MOST_STEAL:
        yield Finding(
            "steal", "warning", text, "other guests use this host; use more repeats, or a dedicated host"
        )
    else:
        yield Finding("steal", "ok", text)


def _named(working: Sequence[Busy]) -> str:
    """`mariadbd (pid 4711) 0.98 cores, stress (pid 12) 0.50`."""
    from venturi.common.texts import plain

    shown = [f"{plain(one.name)} (pid {one.pid}) {one.cores:.2f}" for one in working[:_MOST_NAMED]]
    more = f" and {len(working) - _MOST_NAMED} more" if len(working) > _MOST_NAMED else ""
    return f"{shown[0]} cores{', ' if shown[1:] else ''}{', '.join(shown[1:])}{more}"


def _files() -> Iterator[Finding]:
    from venturi.common.environment import open_files

    limit = open_files()
    if limit is None:
        yield from _unknown("open files")
    elif limit < _LEAST_FILES:
        yield Finding("open files", "warning", f"{limit} at most", "many streams need more; ulimit -n 65536")
    else:
        yield Finding("open files", "ok", f"{limit} at most")


def _buffers() -> Iterator[Finding]:
    from venturi.common.environment import read

    for name in ("tcp_rmem", "tcp_wmem"):
        text = read(f"/proc/sys/net/ipv4/{name}")
        if text is None:
            yield from _unknown(name)
            continue
        most = int(text.split()[-1])
        shown = f"up to {most / 2**20:.1f} MiB a socket"
        if most < _LEAST_BUFFER:
            advice = "one stream over a long or fast link is throttled; "
            advice += f'sudo sysctl -w net.ipv4.{name}="4096 131072 16777216"'
            yield Finding(name, "warning", shown, advice)
        else:
            yield Finding(name, "ok", shown)


def _congestion_control() -> Iterator[Finding]:
    from venturi.common.environment import read

    found = read("/proc/sys/net/ipv4/tcp_congestion_control")
    if found is None:
        yield from _unknown("congestion control")
        return
    # No warning: over long paths it is the better choice.
    paced = ", which paces what is sent: within this host, and over short and fast links, cubic may be faster"
    yield Finding("congestion control", "ok", found + (paced if found == "bbr" else ""))


def _memory() -> Iterator[Finding]:
    from venturi.common.environment import memory

    found = memory()
    free, total = found["available"], found["total"]
    if free is None:
        yield from _unknown("memory")
    elif free < _LEAST_MEMORY:
        yield Finding(
            "memory", "warning", f"{free / 1e9:.1f} GB available", "little room; find users by: free -h; top"
        )
    else:
        yield Finding("memory", "ok", f"{free / 1e9:.1f} of {(total or 0) / 1e9:.1f} GB available")
    swap, swap_free = found["swap_total"], found["swap_free"]
    if swap is None or swap_free is None:
        yield from _unknown("swap")
    elif swap - swap_free > swap * 0.1:
        used = (swap - swap_free) / 1e9
        yield Finding(
            "swap", "warning", f"{used:.1f} GB in use", "memory was short; sudo swapoff -a, then swapon -a"
        )
    else:
        yield Finding("swap", "ok", "not in use" if swap else "none")


def _huge_pages() -> Iterator[Finding]:
    from venturi.common.environment import chosen, read

    text = chosen(read("/sys/kernel/mm/transparent_hugepage/enabled"))
    if text is None:
        yield from _unknown("huge pages")
        return
    # Neither choice is wrong; runs made under different ones must not be compared unseen.
    yield Finding("huge pages", "ok", f"transparent huge pages: {text}")


def _machine() -> Iterator[Finding]:
    from venturi.common.environment import virtualised

    found = virtualised()
    if found is None:
        yield from _unknown("virtual")
    elif found == "no":
        yield Finding("virtual", "ok", "bare metal, as far as the CPU tells")
    else:
        # No warning: it cannot be mended from here, and a steady guest measures well.
        yield Finding(
            "virtual", "ok", f"a virtual machine ({found}); its neighbours may be felt, watch steal"
        )


def _clock() -> Iterator[Finding]:
    from venturi.common.environment import read

    text = read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    if text is None:
        yield from _unknown("clock")
    elif text in ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"):
        yield Finding("clock", "ok", text)
    else:
        yield Finding("clock", "warning", text, "reading it takes a system call; boot with clocksource=tsc")


def _instrument() -> Iterator[Finding]:
    from venturi.common.errors import VenturiError
    from venturi.common.runtime import load_core

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
    text = f"reading the clock costs {cost:.1f} ns"
    if cost > _SLOWEST_CLOCK_NS:
        yield Finding(
            "instrument", "warning", text, "stages of small batches get inexact; raise --rows-per-batch"
        )
    else:
        yield Finding("instrument", "ok", text)


def _databases() -> Iterator[Finding]:
    from venturi.common.errors import VenturiError
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
    from venturi.common.errors import VenturiError
    from venturi.lab.laboratory import Laboratory

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
    _files,
    _buffers,
    _congestion_control,
    _memory,
    _huge_pages,
    _machine,
    _clock,
    _instrument,
    _databases,
    _links,
    _plugins,
)
