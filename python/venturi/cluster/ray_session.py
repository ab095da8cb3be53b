"""A connection to Ray: how it is found, what it may not do, and places for processes on its hosts."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from functools import cache
from typing import Any

from venturi.cluster import hosts, node
from venturi.common import temporary
from venturi.common.environment import boot_id
from venturi.common.errors import UnreachableError, VenturiError
from venturi.engine.calls import Gone

_QUIET = {"RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}
_OBJECT_STORE_BYTES = 80 * 1024 * 1024
_PLACE_SECONDS = 30.0


_TOKEN = secrets.token_hex(32)
"""What a Ray that is started here demands of everybody, as its ports are open."""


def load_ray(on: str | None = None) -> Any:
    """The package, made ready for `--on`. Raises VenturiError if it is not installed."""
    for name, value in (_QUIET | node.quiet_environment() | _access(on)).items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise VenturiError(
            "--on needs Ray, which is not installed here", hint="pip install 'venturi[cluster]'"
        ) from None
    return ray


@cache
def _reads_ours() -> bool:
    """Whether Ray reads RAY_AUTH_MODE from us: once, when it is imported. What it starts reads it again."""
    return "ray" not in sys.modules


def _access(on: str | None) -> dict[str, str]:
    """Variables by which a cluster lets this process in."""
    if on is None:
        return {}
    if on == "local":
        # Ray that was imported before is left to choose the mode, as it would not hear of ours while what it
        # starts does. From 2.60 it demands a token by itself: this one, else it writes one into a home that
        # is gone when its next process starts.
        return {"RAY_AUTH_TOKEN": _TOKEN} | ({"RAY_AUTH_MODE": "token"} if _reads_ours() else {})
    return hosts.environment_for(on)


@contextlib.contextmanager
def _at_home() -> Iterator[None]:
    """A home that says this is no cloud: else Ray asks the clouds' metadata addresses."""
    with temporary.make("ray") as home:
        (home / "ray_bootstrap_config.yaml").write_text("provider: {type: local}\n", encoding="utf-8")
        before = os.environ.get("HOME")
        os.environ["HOME"] = str(home)
        try:
            yield
        finally:
            if before is None:
                del os.environ["HOME"]
            else:
                os.environ["HOME"] = before


def _silence_worker_logs() -> None:
    """Ray prints workers' deaths to standard output, which is for results; a trial's record tells them."""
    with contextlib.suppress(Exception):
        from ray._private import worker

        worker.print_to_stdstream = lambda *_, **__: None
    with contextlib.suppress(Exception):
        from ray.util.client.logsclient import LogstreamClient

        stream: Any = LogstreamClient
        stream.stdstream = lambda *_, **__: None


class Session:
    """Connected until `close`."""

    def __init__(self, on: str, processes: int) -> None:
        """`on`: ray://HOST:PORT, auto, or local, which starts a Ray of its own for so many processes. Raises
        VenturiError if there is none."""
        self.on, self.ray = on, load_ray(on)
        self.boot_id = boot_id()
        self.alone = on == "local"
        _silence_worker_logs()
        warnings.filterwarnings("ignore", module=r"ray\..*")
        self._guard = RayGuard() if self.alone else None
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        try:
            if self._guard is None:
                self.ray.init(address=on, **options)
                return
            with _at_home(), self._guard.watched():
                self.ray.init(
                    address="local",
                    num_cpus=max(processes, os.cpu_count() or 1),
                    include_dashboard=False,
                    object_store_memory=_OBJECT_STORE_BYTES,
                    _node_ip_address="127.0.0.1",
                    **options,
                )
        except Exception as error:  # Ray's own kinds differ from version to version
            self.close()
            raise _no_cluster(on, error) from None

    def hosts(self, resource: str | None) -> list[str]:
        """Addresses of the hosts that are there, and have the resource where one is named."""
        return [
            node["NodeManagerAddress"]
            for node in self.ray.nodes()
            if node["Alive"] and (node["Resources"].get(resource or "CPU", 0) >= 1)
        ]

    def address(self, node: str) -> str | None:
        """That of a host by its id."""
        found = (n["NodeManagerAddress"] for n in self.ray.nodes() if n["NodeID"] == node)
        return next(found, None)

    def places(self, resources: list[str | None]) -> Places:
        """One place a resource, each on a host of its own; on `local` all here. Raises VenturiError."""
        return Places(self, resources)

    def close(self) -> None:
        """Ends what was started here, and the connection."""
        with contextlib.suppress(Exception):
            self.ray.shutdown()
        if self._guard is not None:
            self._guard.close()


def _no_cluster(on: str, error: Exception) -> VenturiError:
    text = " ".join(str(error).split())
    if "InvalidAuthToken" in f"{error} {error.__cause__}":
        return UnreachableError(
            f"--on {on}: the Ray cluster demands another token than this process has",
            "on a host of `venturi cluster up` unset RAY_AUTH_MODE and RAY_AUTH_TOKEN: a file there has it",
        )
    if "ersion mismatch" in text:
        return VenturiError(
            f"--on {on}: the cluster has other versions of Ray or Python than this host: {text[:300]}",
            hint="install the same ones on all hosts",
        )
    if on == "local":
        return UnreachableError(f"Ray does not start here: {text[:300]}", "venturi run without --on")
    start = "start one: venturi cluster up --hosts a,b,c; or try --on local"
    if on == "auto":
        return UnreachableError(f"--on {on}: no Ray cluster is found from this host", start)
    if "Initialization failure" in text or "ray client server failed" in text.lower():
        return UnreachableError(
            f"--on {on}: the head did not start its process for this run: {text[-300:]}",
            "a head on a busy host may be too slow: try again, or --on auto on its host",
        )
    # Ray's client retries, and does not say why it gave up.
    return UnreachableError(
        f"--on {on}: no Ray cluster answers there, or not to this token",
        f"{start}; where one runs, --on auto on its head's host says more",
    )


class Places:
    """A placement group: room for one process each."""

    def __init__(self, session: Session, resources: list[str | None]) -> None:
        from ray.util.placement_group import placement_group

        self._session, self._resources = session, resources
        bundles = [{"CPU": 1.0, **({name: 1.0} if name else {})} for name in resources]
        self._group = placement_group(bundles, strategy="PACK" if session.alone else "STRICT_SPREAD")
        try:
            self.check(_PLACE_SECONDS)
        except VenturiError:
            self.close()
            raise

    def check(self, seconds: float) -> None:
        """Waits until there is room for all: what was on a dead host gets another. Raises VenturiError."""
        if self._group.wait(seconds):
            return
        wanted = [name for name in dict.fromkeys(self._resources) if name]
        hosts = ", ".join(self._session.hosts(None)) or "none"
        having = f" with a free CPU and {', '.join(wanted)}" if wanted else " with a free CPU"
        raise UnreachableError(
            f"--on {self._session.on}: {len(self._resources)} processes need as many hosts{having}; "
            f"the cluster's are: {hosts}",
            hint="fewer --loaders, or more hosts: venturi cluster status",
        )

    def actor(self, kind: type, at: int, calls: int, reserved: bool = True) -> Actor:
        """A process of that class at a place, which takes so many calls at a time. Not `reserved`: beside
        another one there, whose the place's CPU is."""
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        name = self._resources[at]
        options: dict[str, Any] = {
            "num_cpus": int(reserved),
            "max_concurrency": calls,
            "max_restarts": 0,
            # Ray's list of calls is not used, and reporting each costs three processes CPU time.
            "enable_task_events": False,
            "scheduling_strategy": PlacementGroupSchedulingStrategy(
                placement_group=self._group, placement_group_bundle_index=at
            ),
        }
        if name and reserved:
            options["resources"] = {name: 1.0}
        return Actor(self._session.ray, self._session.ray.remote(kind).options(**options).remote())

    def close(self) -> None:
        """Gives the room back."""
        from ray.util.placement_group import remove_placement_group

        with contextlib.suppress(Exception):
            remove_placement_group(self._group)


class Actor:
    """A process at a place of the cluster."""

    def __init__(self, ray: Any, handle: Any) -> None:
        self._ray, self._handle = ray, handle

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """Calls a method there. The future fails as the method does, and with Gone."""
        out: Future[Any] = Future()

        def done(found: Future[Any]) -> None:
            if found.cancelled():
                out.set_exception(Gone())
            elif (error := found.exception()) is not None:
                out.set_exception(_translated(error))
            else:
                out.set_result(found.result())

        getattr(self._handle, method).remote(*arguments).future().add_done_callback(done)
        return out

    def kill(self) -> None:
        with contextlib.suppress(Exception):
            self._ray.kill(self._handle)


def _translated(error: BaseException) -> BaseException:
    text = str(error)
    if "No module named 'venturi" in text:
        return VenturiError("venturi is not installed there", hint="install the same version on all hosts")
    cause = getattr(error, "cause", None)
    if isinstance(cause, BaseException):
        return cause
    if "Actor" in type(error).__name__ or "Died" in type(error).__name__ or "Crashed" in type(error).__name__:
        return Gone()
    return error


def node_id() -> str:
    """On which of the cluster's hosts this process is."""
    return str(load_ray().get_runtime_context().get_node_id())


_VARIABLE = "VENTURI_RAY"
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.05


class RayGuard:
    """Ends a Ray that was started for a run, and removes its files, at `close` or once the run's process has
    ended: of one that was killed Ray leaves two agents, for a minute, and its directory, for ever."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._guard = subprocess.Popen(
            [sys.executable, "-m", __name__, self._mark, str(os.getpid())],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is this process' to hear
        )

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """What is started in the block, and by that, is ended by the guard."""
        os.environ[_VARIABLE] = self._mark
        try:
            yield
        finally:
            del os.environ[_VARIABLE]

    def close(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()


def guard(mark: str, driver: str) -> None:
    """The process of a `RayGuard`."""
    sys.stdin.read()
    until = time.monotonic() + _GRACE_SECONDS
    while (left := node.users(_VARIABLE, mark)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    # Where Ray puts its directories, whose names end with the driver's number.
    place = os.path.join(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")
    for directory in glob.glob(os.path.join(glob.escape(place), f"session_*_{driver}")):
        shutil.rmtree(directory, ignore_errors=True)
    latest = os.path.join(place, "session_latest")
    if not os.path.exists(latest):
        with contextlib.suppress(OSError):
            os.unlink(latest)
    with contextlib.suppress(OSError):
        os.rmdir(place)


if __name__ == "__main__":
    guard(*sys.argv[1:])
