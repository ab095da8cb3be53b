"""What a machine is and how it is set, as far as it shapes a measurement.

Every reading that a platform does not offer is None ("not available"), never an error.
Nothing secret is read: no environment variables, no command lines of other processes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

_SYSCTLS = (
    *("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.core.rmem_max", "net.core.wmem_max"),
    *("net.ipv4.tcp_congestion_control", "net.core.default_qdisc", "net.ipv4.tcp_slow_start_after_idle"),
    *("net.core.somaxconn", "vm.swappiness", "vm.overcommit_memory"),
)


def read(path: str) -> str | None:
    """The text of a small file of the kernel's, None if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def boot_id() -> str | None:
    """The name of this boot of this machine."""
    return read("/proc/sys/kernel/random/boot_id")


def link(path: str) -> str | None:
    """Where a symbolic link leads, None if there is none."""
    try:
        return os.readlink(path)
    except OSError:
        return None


def own_address() -> str | None:
    """The address from which this host would speak to others; None if it has only loopback."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Nothing is sent: connecting a datagram socket only asks for the route.
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return None


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def chosen(text: str | None) -> str | None:
    """The word in brackets of "always [madvise] never"."""
    return text.split("[")[1].split("]")[0] if text and "[" in text and "]" in text else text


def _cpu_model() -> str | None:
    for line in (read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "Hardware"):
            return value.strip()
    return _command("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or None


def _command(*words: str) -> str | None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=2, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None


def _cores() -> dict[str, Any]:
    pairs: set[tuple[str | None, str | None]] = set()
    for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        pairs.add((read(str(path / "physical_package_id")), read(str(path / "core_id"))))
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {"logical": os.cpu_count(), "physical": len(pairs) or None, "usable": usable}


def usable_cores() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _numa() -> list[dict[str, Any]] | None:
    nodes = sorted(Path("/sys/devices/system/node").glob("node[0-9]*"))
    return [{"node": path.name, "cpus": read(str(path / "cpulist"))} for path in nodes] or None


def _frequency() -> dict[str, Any] | None:
    base = "/sys/devices/system/cpu/cpu0/cpufreq/"
    names = ("scaling_cur_freq", "scaling_min_freq", "scaling_max_freq")
    found = {name.split("_")[1] + "_khz": _number(read(base + name)) for name in names}
    return found if any(value is not None for value in found.values()) else None


def cpu_times() -> dict[str, int] | None:
    """Ticks of all CPUs since boot by kind: user, nice, system, idle, iowait, irq, softirq, steal."""
    line = (read("/proc/stat") or "").partition("\n")[0].split()
    if line[:1] != ["cpu"]:
        return None
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
    return dict(zip(names, map(int, line[1:9]), strict=False))


def _steal() -> float | None:
    times = cpu_times()
    return times["steal"] / max(sum(times.values()), 1) if times and "steal" in times else None


def memory() -> dict[str, int | None]:
    """Bytes of memory and swap: total, available, swap_total, swap_free."""
    found: dict[str, int] = {}
    for line in (read("/proc/meminfo") or "").splitlines():
        name, _, rest = line.partition(":")
        if rest.strip().endswith("kB"):
            found[name] = int(rest.split()[0]) * 1024
    total = found.get("MemTotal")
    if total is None:
        with contextlib.suppress(ValueError, OSError, AttributeError):
            total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "total": total,
        "available": found.get("MemAvailable"),
        "swap_total": found.get("SwapTotal"),
        "swap_free": found.get("SwapFree"),
    }


@functools.cache
def memory_limit() -> int | None:
    """Bytes of memory that this process may take: the machine's, or fewer if its control group has fewer."""
    found = [memory()["total"], *group_memory(read("/proc/self/cgroup") or "")]
    return min((size for size in found if size is not None), default=None)


def group_memory(groups: str, root: str = "/sys/fs/cgroup") -> list[int]:
    """The limits of memory of the control groups in `groups` (/proc/PID/cgroup) and of all above them. A
    container may not see its group's folder, and has its own as the root."""
    found = []
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        folder, name = (f"{root}/memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
        group = Path(path)
        for part in (group, *group.parents):
            text = read(f"{folder}{part}/{name}") or ""
            found += [int(text)] if text.isdecimal() else []
    return found


def virtualised() -> str | None:
    """The hypervisor's or container's name as far as it shows, "no" where the CPU says so."""
    flags = next((x for x in (read("/proc/cpuinfo") or "").splitlines() if x.startswith("flags")), None)
    vendor = read("/sys/class/dmi/id/sys_vendor")
    if flags is None:
        return vendor
    if " hypervisor" not in flags:
        return "no"
    return read("/sys/hypervisor/type") or vendor or "yes"


def file_system(path: Path) -> str | None:
    """The kind of file system that a directory lies on: ext4, xfs, tmpfs, nfs4."""
    found: tuple[int, str] | None = None
    for line in (read("/proc/self/mountinfo") or "").splitlines():
        fields, _, rest = line.partition(" - ")
        # Octal escapes stand for the blanks in a mount point's name.
        point = fields.split()[4].encode().decode("unicode_escape")
        under = path == Path(point) or Path(point) in path.parents
        # The longest mount point is the one; of two mounts on one point the later.
        if under and (found is None or len(point) >= found[0]):
            found = (len(point), rest.split()[0])
    return found[1] if found else None


def open_files() -> int | None:
    """The soft limit of open files, `ulimit -n`."""
    try:
        import resource

        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except (ImportError, OSError):
        return None


def version(package: str) -> str | None:
    """The installed version of a Python package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def describe_host() -> dict[str, Any]:
    """This host: hardware, kernel and its settings."""
    load = None
    with contextlib.suppress(OSError, AttributeError):
        load = [round(value, 2) for value in os.getloadavg()]
    return {
        "host": platform.node(),
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "boot_id": boot_id(),
        "cpu": _cpu_model(),
        "cores": _cores(),
        "numa": _numa(),
        "governor": read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "frequency": _frequency(),
        "virtualised": virtualised(),
        "memory": memory(),
        "page_size": os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else None,
        "transparent_huge_pages": chosen(read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "loadavg": load,
        "steal_share_since_boot": _steal(),
        "open_files": open_files(),
        "sysctls": {name: read("/proc/sys/" + name.replace(".", "/")) for name in _SYSCTLS},
    }


def describe() -> dict[str, Any]:
    """This end: its software and its host."""
    root = Path(__file__).parents[3]
    software = {
        "venturi": version("venturi"),
        "python": platform.python_version(),
        "pyarrow": version("pyarrow"),
        "implementation": sys.implementation.name,
        # Of this checkout, if Venturi runs from one.
        "commit": _command("git", "-C", str(root), "rev-parse", "--short=12", "HEAD")
        if (root / ".git").exists()
        else None,
    }
    return {"software": software, **describe_host()}


def collect(peers: Mapping[str, ServerEnvironments] | None = None) -> dict[str, Any]:
    """All ends: the client is this process; `told` is what the others report, by place and server. `server`
    is the first that tells anything. Where several places have one, `servers` has that of each; a place of
    several servers has all of them in `server_hosts`."""
    places = peers or {}
    firsts = {place: next((one for one in found.values() if one), None) for place, found in places.items()}
    described = {place: dict(first) for place, first in firsts.items() if first}
    several = {place: dict(found) for place, found in places.items() if len(found) > 1}
    both: dict[str, Any] = {"client": describe(), "server": next(iter(described.values()), None)}
    both |= {"servers": described} if len(described) > 1 else {}
    return both | ({"server_hosts": several} if several else {})


ServerEnvironments = Mapping[str, Mapping[str, Any] | None]
"""By HOST:PORT, in the order of the address: a server's environment, None if it tells none."""
