"""What runs on each node of a Slurm job, by the script of `venturi cluster slurm`.

`address` prints by which address the other nodes reach this one. `node` starts a Ray node; on the first host
it also waits for the others and runs `venturi run`, whose exit status is the job's. The other tasks hold a
connection to the first one: when it closes, whatever the reason, they end their Ray nodes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from venturi.cluster import node

_START_SECONDS = 90.0
_JOIN_SECONDS = 120.0
_POLL_SECONDS = 0.5
# Slurm ends a step's tasks by SIGTERM and 30 s later by SIGKILL. Some kinds of step hand the first one to
# all processes of the task, others to the task alone; and a second one would end the run at once.
_HEARD_SECONDS, _SIGNALLED_SECONDS = 5.0, 10.0
# Ports of a job are its own: nodes may be shared. Two a job, below those that the kernel gives to clients.
_FIRST_PORT, _JOBS = 20_000, 5_000


class Ended(Exception):
    """Slurm wants the task to end."""


def ports(job: int) -> tuple[int, int]:
    """Ray's and the one that the tasks hold on to."""
    first = _FIRST_PORT + 2 * (job % _JOBS)
    return first, first + 1


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="venturi.cluster.slurm_task", description=__doc__)
    parser.add_argument("--interface", help="the network between the nodes, as 10.0.0.0/24")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("address", help="print this node's address")
    one = commands.add_parser("node", help="be a node of the job")
    one.add_argument("--first", required=True, help="name of the node with the head, as Slurm has it")
    one.add_argument("--head", required=True, help="its address")
    one.add_argument("run", nargs="+", help="words after `venturi run`")
    arguments = parser.parse_args(words)
    try:
        if arguments.command == "address":
            print(_address(arguments.interface))
            return 0
        for number in _ENDING:
            signal.signal(number, _end)
        return _node(arguments)
    except node.Refused as error:
        print(f"error: {socket.gethostname()}: {error}", file=sys.stderr, flush=True)
        return 1
    except Ended:
        return 143


_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _end(*_: object) -> None:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # once is enough: it ends in its own order
    raise Ended


def _address(interface: str | None) -> str:
    """By the network that was named; else what the host's own name stands for, as for Slurm itself."""
    if interface is not None:
        return str(node.look({"interface": interface})["address"])
    with contextlib.suppress(OSError):
        for found in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_DGRAM):
            address = str(found[4][0])
            if not address.startswith("127.") and address != "::1" and node.is_ours(address):
                return address
    raise node.Refused("cannot tell by which address the other nodes reach it: give --interface")


def _node(arguments: argparse.Namespace) -> int:
    ray_port, held_port = ports(int(os.environ["SLURM_JOB_ID"]))
    is_head = os.environ.get("SLURMD_NODENAME", socket.gethostname()) == arguments.first
    looked = node.look({"interface": arguments.interface, "towards": arguments.head})
    own = arguments.head if is_head else looked["address"]
    if own is None:
        raise node.Refused(f"no route to the head, {arguments.head}: give --interface")
    order: dict[str, Any] = {
        "directory": os.path.join("/tmp", f"vt{os.environ['SLURM_JOB_ID']}-{os.getuid()}"),
        "address": own,
        "head": node.joined(arguments.head, ray_port),
        "is_head": is_head,
        "token": os.environ.get("RAY_AUTH_TOKEN"),
        "seconds": _START_SECONDS,
    }
    try:
        if is_head:
            return _head(order, held_port, arguments.run)
        with _held(arguments.head, held_port) as connection:
            node.start(order)
            connection.sendall(b"+")
            connection.settimeout(None)
            try:
                connection.recv(1)  # nothing comes: the end does
            except Ended:
                # The run ends with the step, and must store its trial before its loaders end.
                connection.settimeout(_HEARD_SECONDS + _SIGNALLED_SECONDS)
                with contextlib.suppress(OSError):
                    connection.recv(1)
                raise
        return 0
    finally:
        for number in _ENDING:
            signal.signal(number, signal.SIG_IGN)
        node.stop(order)
        with contextlib.suppress(OSError):
            os.rmdir(order["directory"])


@contextlib.contextmanager
def _held(head: str, port: int) -> Iterator[socket.socket]:
    """A connection to the first task, which may be a while in starting."""
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            connection = socket.create_connection((head, port), timeout=10)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise node.Refused(f"cannot reach the head at {head}: {error}") from None
            time.sleep(_POLL_SECONDS)
    # Keepalive notices a host that vanished.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    with connection, contextlib.suppress(ConnectionError, TimeoutError):
        yield connection


def _head(order: dict[str, Any], held_port: int, words: Sequence[str]) -> int:
    count = int(os.environ["SLURM_NTASKS"])
    family = socket.AF_INET6 if ":" in order["address"] else socket.AF_INET
    with contextlib.ExitStack() as stack:
        started = node.start(order)
        listening = stack.enter_context(socket.create_server((order["address"], held_port), family=family))
        until = time.monotonic() + _JOIN_SECONDS
        for missing in range(count - 1, 0, -1):
            listening.settimeout(max(0.01, until - time.monotonic()))
            try:
                connection = stack.enter_context(listening.accept()[0])
                connection.settimeout(max(0.01, until - time.monotonic()))
                joined = connection.recv(1) == b"+"
            except TimeoutError:
                joined = False
            if not joined:
                raise node.Refused(f"{missing} of {count} nodes did not join within {_JOIN_SECONDS:.0f} s")
        environment = {**os.environ, **node.access(started["directory"])}
        command = [sys.executable, "-m", "venturi", "run", *words, "--on", "auto"]
        with subprocess.Popen(command, env=environment) as running:
            try:
                return running.wait()
            except Ended:
                # A running trial is kept as interrupted.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(_HEARD_SECONDS)
                running.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(_SIGNALLED_SECONDS)
                running.kill()
                raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
