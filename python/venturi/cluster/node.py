"""A host's part of `venturi cluster`: it looks round, starts a Ray node, ends it.

Sent through ssh as the program of `python -`, with nothing but the standard library: so a host that lacks
Venturi or Ray says which, instead of a traceback, and nothing secret stands on a command line. The tasks of
`venturi cluster slurm` import it. An order is a JSON object, an answer another one, in a line that begins
with MARK.

A node lives in a directory of its own: `node.json` (whose process it is), the log, Ray's files, and a home
directory. Every process of it, and every process that those start, has the directory's path in its
environment, or a file open below it: so `stop` finds them all and nobody else's.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from importlib import metadata
from typing import Any

MARK = "venturi-node:"
_FIRST_PYTHON = (3, 11)
_VARIABLE = "VENTURI_CLUSTER_NODE"
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.1
# Venturi's data never goes through Ray's object store; its default is 30 % of the memory.
_OBJECT_STORE_BYTES = 128 * 2**20
# The path of a Unix socket has at most 107 bytes, and Ray appends about 70 to the directory.
_LONGEST_DIRECTORY = 40
# A dead node is to be known after seconds: its host refuses the check, three times in a row. A host that says
# nothing may only be busy, as those that are measured are, and has three times five seconds. Ray's own
# settings take most of a minute for both.
_HEALTH = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 5000,
    "health_check_failure_threshold": 3,
}
# What Ray looks for in the home directory before it asks the cloud's metadata service where it runs.
_BOOTSTRAP = ("ray_bootstrap_config.yaml", "provider:\n  type: local\n")
# For each driver that comes by ray:// the head starts a process. Head and process would give up each other
# after 30 s, which a busy host may take. gRPC's handlers of forks crash the head now and then.
_CLIENT = {
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "300",
    "TIMEOUT_FOR_SPECIFIC_SERVER_S": "300",
    "GRPC_ENABLE_FORK_SUPPORT": "0",
}
_RENAMED = ("ray::", "ray-dashboard-")
"""How the names begin that Ray's processes give themselves: `ray::DashboardAgent`."""
_STARTED = "Ray runtime started"
# Ray gives up its own node after 30 s, whatever it is told.
_TIMED_OUT = "timed out during startup"
_REFUSED = "InvalidAuthToken"


class Refused(Exception):
    """Why an order cannot be followed, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


def quiet_environment() -> dict[str, str]:
    """Variables under which Ray tells nobody outside that it runs. Its switch for usage statistics alone
    still sends a report that they are off: hence the address where nobody listens."""
    return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/"}


def look(order: dict[str, Any]) -> dict[str, Any]:
    """What this host is and has; `address` is where the others reach it. The order's `interface` (a network,
    as 10.0.0.0/24) or `towards` (an address) choose among several."""
    if sys.platform != "linux":
        raise Refused(f"runs {platform.system()}; Ray joins hosts on Linux only")
    if sys.version_info[:2] < _FIRST_PYTHON:
        raise Refused(f"Python {platform.python_version()} is too old", "--python names another one")
    return {
        "venturi": _version("venturi"),
        "ray": _version("ray"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "hostname": socket.gethostname(),
        "cpus": len(os.sched_getaffinity(0)),
        "address": _address(order.get("interface"), order.get("towards")),
        "nodes": [_shown(node) for _, node in _nodes(_base(order)) if _alive(node)],
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _address(interface: str | None, towards: str | None) -> str | None:
    """This host's address in that network, or the one it would send from; None if nothing tells."""
    if interface is not None:
        network = ipaddress.ip_network(interface, strict=False)
        # The second address of a network, and the only one of a /32.
        found = _source(str(network[1] if network.num_addresses > 1 else network[0]))
        if found is None or ipaddress.ip_address(found) not in network:
            raise Refused(f"has no address in {interface}", "--interface names a network that all hosts have")
        return found
    if towards is not None:
        return _source(towards)
    # Where ssh came to; another namespace or a sudo may have inherited the variable.
    reached = os.environ.get("SSH_CONNECTION", "").split()
    return reached[2] if len(reached) == 4 and is_ours(reached[2]) else None


def _source(towards: str) -> str | None:
    """The address that packets there would be sent from; none is sent."""
    family = socket.AF_INET6 if ":" in towards else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.connect((towards, 9))
            return str(sender.getsockname()[0])
    except OSError:
        return None


def is_ours(address: str) -> bool:
    """Whether this host has that address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as bound:
            bound.bind((address, 0))
            return True
    except OSError:
        return False


def joined(address: str, port: int) -> str:
    """address:port, with brackets round an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def start(order: dict[str, Any]) -> dict[str, Any]:
    """Starts the node and waits until it runs. The order has `address`, `head` (the head's address and port),
    `is_head`, `seconds`, and may have `token`, `client_port`, `resources`, `cpus`, `directory`. Raises
    Refused, with the end of Ray's log."""
    base = _base(order)
    _make_base(base)
    for _, node in _nodes(base):
        if _alive(node):
            what = (
                f"a Ray node of `venturi cluster` runs there already (pid {node['pid']}, head {node['head']})"
            )
            raise Refused(what, "venturi cluster down ends it")
    name = order["address"]
    # An IPv6 address could be most of a socket's path.
    directory = os.path.join(base, f"{zlib.crc32(name.encode()):08x}" if ":" in name else name)
    _remove(directory)
    if len(directory) > _LONGEST_DIRECTORY:
        raise Refused(f"{directory} is too long for the sockets in it", "--directory names a shorter one")
    # A disk that is mounted there stays when what is on it is removed.
    _make_base(directory)
    environment = _environment(directory, order.get("token"))
    log = os.path.join(directory, "log")
    until = time.monotonic() + float(order["seconds"])
    process, node = _launch(order, directory, environment, log)
    while _STARTED not in text(log):
        gone, late = process.poll() is not None, time.monotonic() > until
        if gone and not late and _TIMED_OUT in text(log):
            _kill(directory)
            process, node = _launch(order, directory, environment, log)
        elif gone or late:
            why, hint = _complaint(log)
            _end(directory, node)
            what = "Ray has ended" if gone else f"Ray did not start within {order['seconds']:g} s"
            raise Refused(f"{what}: {why}" if why else what, hint)
        time.sleep(_POLL_SECONDS)
    return {**_shown(node), "directory": directory}


def _launch(
    order: dict[str, Any], directory: str, environment: dict[str, str], log: str
) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Starts Ray's process there, with a new log, and writes down whose it is."""
    with open(log, "wb") as output:
        process = subprocess.Popen(
            _command(order, directory),
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it outlives this program, and the connection that brought it
        )
    node = {
        "pid": process.pid,
        "started": started(process.pid),
        "boot": boot(),
        "namespace": namespace(),
        "address": order["address"],
        "head": order["head"],
        "is_head": order["is_head"],
    }
    # Written aside: who finds the file finds all of it.
    with open(os.path.join(directory, "new"), "w") as file:
        json.dump(node, file)
    os.replace(os.path.join(directory, "new"), os.path.join(directory, "node.json"))
    return process, node


def _command(order: dict[str, Any], directory: str) -> list[str]:
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    command += [f"--node-ip-address={order['address']}", f"--temp-dir={directory}/ray"]
    command += [f"--object-store-memory={_OBJECT_STORE_BYTES}"]
    if order.get("cpus") is not None:
        command += [f"--num-cpus={order['cpus']}"]
    if order.get("resources"):
        command += [f"--resources={json.dumps(order['resources'])}"]
    if not order["is_head"]:
        return [*command, f"--address={order['head']}"]
    command += ["--head", f"--port={order['head'].rpartition(':')[2]}", "--include-dashboard=false"]
    command += ["--disable-usage-stats", f"--system-config={json.dumps(_HEALTH)}"]
    if order.get("client_port"):
        command += [f"--ray-client-server-port={order['client_port']}"]
    return command


def _environment(directory: str, token: str | None) -> dict[str, str]:
    """Of the node's processes. Variables of another Ray that this session may have would lead it astray."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    home = os.path.join(directory, "home")
    os.mkdir(home)
    with open(os.path.join(home, _BOOTSTRAP[0]), "w") as file:
        file.write(_BOOTSTRAP[1])
    environment |= {**quiet_environment(), **_CLIENT, "HOME": home, _VARIABLE: directory}
    if token is not None:
        place = token_path(directory)
        with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(token)
        environment |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": place}
    return environment


def token_path(directory: str) -> str:
    """Where a node keeps the cluster's token."""
    return os.path.join(directory, "token")


def stop(order: dict[str, Any]) -> dict[str, Any]:
    """Ends the nodes of this host and removes what they left; nothing to do is well done too."""
    ended = []
    for directory, node in _nodes(_base(order)):
        _end(directory, node)
        ended.append(_shown(node))
    return {"ended": ended}


_MEMBERS = """
import json, sys, time
import ray
address, wanted, seconds = sys.argv[1], set(json.loads(sys.argv[2])), float(sys.argv[3])
ray.init(address=address, log_to_driver=False, logging_level="ERROR")
until = time.monotonic() + seconds
while True:
    nodes = {n["NodeManagerAddress"]: n["Resources"] for n in ray.nodes() if n["Alive"]}
    if wanted <= nodes.keys() or time.monotonic() > until:
        break
    time.sleep(0.2)
print("members", json.dumps(nodes), flush=True)
"""


def members(order: dict[str, Any]) -> dict[str, Any]:
    """Addresses and resources of the cluster's living nodes, asked by the head's host. Waits for those of
    `wanted`, `seconds` at most."""
    for directory, node in _nodes(_base(order)):
        if not node["is_head"] or not _alive(node):
            continue
        wanted, seconds = order.get("wanted") or [], float(order.get("seconds") or 0)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        environment |= access(directory) | {_VARIABLE: directory}
        done = subprocess.run(
            [sys.executable, "-c", _MEMBERS, node["head"], json.dumps(wanted), str(seconds)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=seconds + 30,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(f"cannot ask Ray for its nodes: {_last(done.stderr)}")
        # Ray prints to standard output too, as when a node has just died.
        lines = [line for line in done.stdout.splitlines() if line.startswith("members {")]
        if not lines:
            raise Refused(f"cannot ask Ray for its nodes: {_last(done.stdout + done.stderr)}")
        return {"members": json.loads(lines[-1].removeprefix("members "))}
    raise Refused("no head of a cluster runs there", "venturi cluster up starts one")


def access(directory: str) -> dict[str, str]:
    """Variables with which a program of this host finds the node's cluster and may speak to it."""
    found = quiet_environment()
    with contextlib.suppress(OSError, ValueError), open(os.path.join(directory, "node.json")) as file:
        found["RAY_ADDRESS"] = json.load(file)["head"]
    if os.path.exists(token_path(directory)):
        found |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token_path(directory)}
    return found


def running(base: str | None = None) -> str | None:
    """The directory of the node that runs on this host, None if none does."""
    for directory, node in _nodes(_base({"directory": base})):
        if _alive(node):
            return directory
    return None


def _base(order: dict[str, Any]) -> str:
    return str(order.get("directory") or os.path.join(tempfile.gettempdir(), f"vt-cluster-{os.getuid()}"))


def _make_base(base: str) -> None:
    """Everybody may write to /tmp: a directory that somebody else has made there is not used."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(base, 0o700)
    found = os.lstat(base)
    if found.st_uid != os.getuid() or found.st_mode & 0o022 or os.path.islink(base):
        raise Refused(f"{base} is not ours alone", "remove it, or name another by --directory")


def _nodes(base: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The nodes that this host has started, alive or not. Others may share its files, not its network."""
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return
    for name in names:
        directory = os.path.join(base, name)
        try:
            with open(os.path.join(directory, "node.json")) as file:
                node = json.load(file)
            if os.stat(directory).st_uid == os.getuid() and node["namespace"] == namespace():
                yield directory, node
        except (OSError, ValueError, KeyError):
            continue


def _shown(node: dict[str, Any]) -> dict[str, Any]:
    return {key: node[key] for key in ("pid", "address", "head", "is_head")}


def _alive(node: dict[str, Any]) -> bool:
    """Whether it is still that process: numbers are given again, and after a restart all of them."""
    return node["boot"] == boot() and node["started"] is not None and started(node["pid"]) == node["started"]


def _end(directory: str, node: dict[str, Any]) -> None:
    """Asks the node to end, then ends by force what is left of it, and removes its directory."""
    if node["boot"] == boot():
        if _alive(node):
            with contextlib.suppress(ProcessLookupError):
                os.kill(node["pid"], signal.SIGTERM)
        until = time.monotonic() + _GRACE_SECONDS
        while _alive(node) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        _kill(directory)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(node["pid"], os.WNOHANG)
    _remove(directory)


def _kill(directory: str) -> None:
    """Ends by force every process of the node that is left."""
    for _ in range(50):
        left = users(_VARIABLE, directory, directory)
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _remove(directory: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _complaint(log: str) -> tuple[str, str]:
    """The line of a log that says most, the last one of an error, else the last one; and a hint."""
    found = text(log)
    if _REFUSED in found:
        return "the head demands another token", "venturi cluster down and up: all hosts get a new one"
    lines = [line.strip() for line in found.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error:" in line.lower()]
    away = "Failed to connect" in found
    hint = "the hosts must reach one another on all ports: firewalls, and --interface" if away else ""
    return (errors or lines or [""])[-1][:500], hint


def boot() -> str:
    return text("/proc/sys/kernel/random/boot_id").strip()


def namespace() -> str:
    return os.readlink("/proc/self/ns/net")


def started(pid: int) -> int | None:
    """When a process was started, in ticks since the system was; None of one that has ended."""
    fields = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[0] not in ("Z", "X") else None


def text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def users(variable: str, value: str, directory: str | None = None) -> list[int]:
    """Processes that have the value as that variable, but for this one. With a directory also Ray's that have
    a file open below it: those that name themselves anew, as `ray::IDLE`, overwrite their environment."""
    wanted = f"{variable}={value}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = wanted in file.read().split(b"\0")
            if not ours and directory is not None and text(f"/proc/{name}/cmdline").startswith(_RENAMED):
                ours = any(path.startswith(directory + "/") for path in _open_files(name))
        except OSError:
            continue
        if ours and started(int(name)) is not None:
            found.append(int(name))
    return found


def _open_files(pid: str) -> list[str]:
    """Paths of the files that a process has open."""
    paths = []
    for one in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            paths.append(os.readlink(one.path))
    return paths


def obey(text: str) -> None:
    """Follows one order and prints the answer."""
    order = json.loads(text)
    try:
        answer = {"look": look, "start": start, "stop": stop, "members": members}[order["do"]](order)
    except Refused as error:
        answer = {"error": str(error), "hint": error.hint}
    except (OSError, subprocess.SubprocessError) as error:
        answer = {"error": str(error)}
    print(f"{MARK} {json.dumps(answer)}", flush=True)
