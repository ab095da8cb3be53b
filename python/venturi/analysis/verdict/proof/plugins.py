"""The proof for targets in Python and for drivers: nearly all of the time is spent in calls into them."""

from __future__ import annotations

from venturi.analysis.cells.figures import CALLS
from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof.cores import COMPUTES, held_up
from venturi.analysis.verdict.proof.databases import DELAYED
from venturi.analysis.verdict.proof.ends import WORKERS
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond, known

ONE_CORE = 1.25
"""Cores up to which several calls that compute are one interpreter's, which runs one thread at a time: what
libraries do without its lock comes on top."""
SEVERAL = 1.5
"""Calls at a time, on the mean, from which they could have used more than one core."""

_CAUSES = {
    "plugin": (Cause.PLUGIN_BUSY, Cause.PLUGIN_WAITS),
    "driver": (Cause.DRIVER_BUSY, Cause.DRIVER_WAITS),
}


def plugin(seen: CellEvidence) -> Diagnosis | None:
    """Calls of a plugin, or of a driver, take nearly all of the time of the client's workers."""
    client, occupancy = seen.client, seen.client.occupancy
    stage = client.first
    if stage not in CALLS or occupancy is None or occupancy < WORKERS or held_up(seen, client):
        return None
    busy, waits = _CAUSES[stage]
    workers = client.workers or 1.0
    calls = client.stages[stage] * workers
    # What Venturi does in the same process is not the plugin's.
    own = sum(share for name, share in client.work.items() if name != stage) * workers
    cpu = None if client.cpu is None else max(0.0, client.cpu - own)
    numbers = known(occupancy=occupancy, calls=calls, cpu_cores=cpu, server_cpu_cores=seen.server.cpu)
    margin = beyond(occupancy, WORKERS) + 0.3
    if cpu is None:
        return Diagnosis(busy, "client", stage, 0.3, numbers, (MissingEvidence.CLIENT_CPU,))
    if cpu / calls >= COMPUTES:
        cause = busy
    elif stage == "plugin" and calls >= SEVERAL and COMPUTES <= cpu <= ONE_CORE:
        cause, margin = Cause.PLUGIN_ONE_INTERPRETER, 0.3
    else:
        cause, margin = waits, beyond(1 - cpu / calls, 1 - COMPUTES)
        if (client.run_delay or 0.0) >= DELAYED:
            # It may have been for a CPU.
            margin, numbers = 0.0, {**numbers, "run_delay": client.run_delay or 0.0}
    return Diagnosis(cause, "client", stage, margin, numbers)
