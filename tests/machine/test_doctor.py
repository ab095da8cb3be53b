"""What `venturi doctor` finds of this machine. How processes are ordered by their ticks is in
tests/unit/test_cli.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

from support.run import venturi
from venturi.common import processes


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_doctor_says_who_uses_the_cpus() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            before, began = processes.ticks(), time.monotonic()
            done = venturi("doctor", "--json")
            found = processes.busiest(before, processes.ticks(), time.monotonic() - began)
            again = processes.busiest(before, processes.ticks(), time.monotonic() - began, least=1e9)
        finally:
            busy.kill()
    (ours,) = [one for one in found if one.pid == busy.pid]
    # It never sleeps, so only others that want the CPUs too keep it from a whole one; it has one thread.
    assert 0.05 <= ours.cores <= 1.05 and ours.name.startswith("python"), ours
    assert found == sorted(found, key=lambda one: -one.cores) and again == []
    load = next(one for one in json.loads(done.stdout) if one["check"] == "load")
    named = re.findall(r"(\S+) \(pid (\d+)\) ([\d.]+)", load["text"])
    assert str(busy.pid) in [pid for _, pid, _ in named] or (len(named) == 5 and " more" in load["text"]), (
        load
    )
    assert load["state"] == "warning" and load["advice"].startswith("end that work")
