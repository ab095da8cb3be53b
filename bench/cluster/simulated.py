"""`venturi` whose loaders are simulated: `simulated.py run ... --on local --loaders 1000`.

The driver is the real one, with Ray between it and the loaders. Of these only the ends of the protocol are
there, many in one process: each answers every call as a real one would, with a record that a real loader gave
for a stream of its own, put to its own stream and time. Nothing is moved. The machines of a thousand loaders
are not here, so what is left to measure is the driver's.
"""

from __future__ import annotations

import asyncio
import copy
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from venturi.cluster.ray import ray_executor
from venturi.cluster.ray.ray_executor import Note, RayExecutor, RayHandle
from venturi.cluster.ray.ray_servers import RayServers
from venturi.cluster.ray.ray_session import Session, later, node_id
from venturi.cluster.trial.loader import ENDED, Loader, Told, reached
from venturi.cluster.trial.shares import Share, spec_of
from venturi.plan.settings import Hosts

PROCESSES = 2
"""That answer for all loaders."""
_CALLS = 100_000
"""At a time: those that wait for a phase are two a loader."""
_RECORD_SECONDS = 60.0


def recorded(spec: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a real loader gives for the last stream of a trial: its record, and its tallies."""
    loader = Loader()
    own = spec_of({**spec, "threads": 1}, Share(int(spec["streams"]) - 1, 1), lead=False)
    own["trial"] = f"{spec['trial']}.recorded"
    loader.begin(json.dumps(own), "ready", _RECORD_SECONDS)
    told = loader.start_at(time.time_ns() + 50_000_000, "done", _RECORD_SECONDS)
    if told["phase"] == ENDED or told["record"] is None or told["tallies"] is None:
        raise RuntimeError(f"no record to play: {told['record']}")
    return json.loads(told["record"]), json.loads(told["tallies"])


def _key(spec: dict[str, Any]) -> tuple[int, int]:
    """Trials of which one record will do."""
    return int(spec["duration_ns"]), int(spec["streams"])


class _End:
    """The protocol's end of one loader."""

    def __init__(self) -> None:
        self.trial, self.phase, self.first, self.lead = "", "set-up", 0, False
        self.spec: dict[str, Any] = {}
        self.started_ns = 0
        self.concluded = asyncio.Event()


class Ends:
    """Many of them, as one actor of Ray."""

    def __init__(self) -> None:
        self._ends: dict[int, _End] = {}
        self._played: dict[tuple[int, int], tuple[dict[str, Any], list[dict[str, Any]]]] = {}
        self._playing = asyncio.Lock()
        self._identity = Loader().identify() | {"node_id": node_id()}

    async def call(self, at: int, method: str, arguments: Sequence[Any]) -> Any:
        """A method of loader `at`."""
        return await getattr(self, f"_{method}")(self._ends.setdefault(at, _End()), at, *arguments)

    async def _identify(self, end: _End, at: int) -> dict[str, Any]:
        own = {"hostname": f"host-{at}", "boot_id": f"boot-{at}", "network": f"net-{at}", "pid": at}
        return self._identity | own

    async def _idle(self, end: _End, at: int) -> bool:
        return True

    async def _now(self, end: _End, at: int) -> int:
        return time.time_ns()

    async def _cancel(self, end: _End, at: int, trial: str | None = None) -> None:
        end.phase = ENDED

    async def _progress(self, end: _End, at: int, trial: str) -> dict[str, Any]:
        elapsed = max(0, time.time_ns() - end.started_ns) if end.started_ns else 0
        counted = {"rows": elapsed // 1000, "payload_bytes": elapsed // 50, "batches": elapsed // 10**8}
        return {"phase": end.phase, "elapsed_ns": elapsed, **counted} if trial == end.trial else {}

    async def _begin(self, end: _End, at: int, text: str, phase: str, seconds: float) -> Told:
        end.spec = spec = json.loads(text)
        end.trial, end.first, end.lead = spec["trial"], spec["share"]["first"], spec["share"]["lead"]
        async with self._playing:
            if (key := _key(spec)) not in self._played:
                # Of a cell's warm-up, before the driver is answered.
                self._played[key] = await asyncio.to_thread(recorded, spec)
        end.phase, end.started_ns = phase, 0
        end.concluded.clear()
        return self._told(end)

    async def _wait(self, end: _End, at: int, phase: str, seconds: float) -> Told:
        if phase == "done":
            await end.concluded.wait()
        if not reached(end.phase, phase):
            end.phase = phase
        return self._told(end)

    async def _start_at(self, end: _End, at: int, unix_ns: int, phase: str, seconds: float) -> Told:
        # Called too late, as by a driver that takes longer than its head start, it starts late.
        end.started_ns, end.phase = max(unix_ns, time.time_ns()), "running"
        until = end.started_ns + int(end.spec["duration_ns"])
        await asyncio.sleep(max(0, until - time.time_ns()) / 1e9)
        end.phase = phase
        return self._told(end)

    async def _conclude(self, end: _End, at: int, tallies: str) -> None:
        mine = len(json.loads(tallies)) + 1
        if mine != int(end.spec["streams"]):
            raise ValueError(f"tallies of {mine} streams, of {end.spec['streams']}")
        end.concluded.set()

    def _told(self, end: _End) -> Told:
        record, tallies = self._played[_key(end.spec)]
        counted, done = reached(end.phase, "counted"), end.phase == "done"
        mine = [{**tally, "stream": end.first} for tally in tallies]
        return {
            "phase": end.phase,
            "tallies": json.dumps(mine) if counted else None,
            "record": json.dumps(self._own(end, record)) if done else None,
        }

    def _own(self, end: _End, record: dict[str, Any]) -> dict[str, Any]:
        own = copy.copy(record)
        own["times"] = {**record["times"], "started_unix_ns": end.started_ns}
        own["streams"] = [{**record["streams"][0], "stream": end.first}]
        return own


class SimulatedHandle(RayHandle):
    """A loader that is one of many in its process."""

    def call(self, method: str, *arguments: object) -> Future[Any]:
        return later(self.actor.call.remote(self.at, method, arguments))


class SimulatedExecutor(RayExecutor):
    """The real one, whose loaders are ends in a few processes."""

    def __init__(
        self, session: Session, hosts: Hosts, loaders: int, note: Note, beside: bool = False
    ) -> None:
        self.loaders = loaders
        self._session, self._note, self._beside = session, note, beside
        self._boot_id = session.boot_id
        self._places = session.places([None] * PROCESSES)
        self._servers = RayServers(session, self._places, range(0), hosts.interface, note)
        actors = [self._places.actor(Ends, at, _CALLS) for at in range(PROCESSES)]
        self._loaders = [
            SimulatedHandle(f"loader-{at + 1}", at, actors[at % PROCESSES]) for at in range(loaders)
        ]
        try:
            self._identified(self._loaders, 120.0)
            self._check_alike()
            self._clocks(self._loaders)
        except BaseException:
            self._end()
            raise

    @classmethod
    def connect(
        cls, on: str, hosts: Hosts, loaders: int | None, note: Note, beside: bool = False
    ) -> SimulatedExecutor:
        assert on == "local" and loaders is not None
        return cls(Session(on, PROCESSES), hosts, loaders, note, beside)


def main() -> None:
    from venturi.cli import main as cli

    # The processes of Ray's actors import this file by its name.
    folder = os.path.dirname(os.path.abspath(__file__))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    import simulated

    ray_executor.RayExecutor = simulated.SimulatedExecutor  # type: ignore[misc]
    sys.exit(cli())


if __name__ == "__main__":
    main()
