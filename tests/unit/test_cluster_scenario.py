"""[hosts] of a scenario and --on: what they mean, and what is said to mistakes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.run import command, environment, model, venturi
from support.scenarios import scenario
from venturi.common.errors import VenturiError
from venturi.engine.spec import build_spec
from venturi.measure import placement
from venturi.measure.endpoints import Endpoints
from venturi.plan import matrix
from venturi.plan.resolved import to_toml

TEXT = '[workload]\nstreams = 8\n[hosts]\nservers = 1\nserver_resource = "big"\n[matrix]\nloaders = "1..4"\n'


def test_without_a_place_one_process_runs_all() -> None:
    (cell,) = matrix.cells(scenario(TEXT))
    (plain,) = matrix.cells(scenario("[workload]\nstreams = 8\n"))
    assert cell.id == plain.id
    assert cell.parameters["loaders"] is None and cell.parameters["on"] is None
    assert "loaders" not in build_spec(cell, "t", "flight://a", {})
    shared = matrix.cells(scenario(TEXT, on="ray"))
    assert len({cell.id for cell in shared}) == 4
    assert build_spec(shared[2], "t", "flight://a", {})["loaders"] == 3


def test_the_resolved_scenario_keeps_its_hosts() -> None:
    found = scenario(TEXT, on="ray")
    again = scenario(to_toml(found), on="ray")
    assert again.hosts == found.hosts and again.axes == found.axes
    assert [cell.id for cell in matrix.cells(again)] == [cell.id for cell in matrix.cells(found)]


def test_where_streams_may_run() -> None:
    found = scenario("")
    kinds = {None: None, "auto": "ray", "local": "ray", "ray://a:10001": "ray", "spark": "spark"}
    for on, kind in kinds.items():
        assert placement.named(found, on, None)[0].on == kind
    with pytest.raises(VenturiError, match="--on everywhere: must be ray://HOST:PORT, auto, local or spark"):
        placement.named(found, "everywhere", None)
    with pytest.raises(VenturiError, match="--master is Spark's"):
        placement.named(found, "auto", "local[2]")
    assert placement.named(scenario(TEXT), None, None)[1] == [
        "no --on: all streams run in this process, and loaders mean nothing"
    ]


def planned(text: str, on: str | None) -> None:
    """As `venturi run --dry-run` looks at it."""
    with Endpoints(placement.named(scenario(text), on, None)[0], False, lambda level, text: None):
        pass


REMOTE = '[target]\nurl = "flight://remote"\n'


def test_a_server_on_a_host_of_its_own_needs_a_cluster() -> None:
    for on in ("auto", "local", "ray://a:10001", "here,auto"):
        planned(REMOTE, on)
        planned(f"{REMOTE}[hosts]\nservers = 3\n", on)
    # Nobody goes there.
    planned('[places]\nnear = "flight://local"\nfar = "flight://remote"\n[matrix]\nplace = ["near"]\n', None)


def test_a_resumed_run_goes_on_where_it_was_begun() -> None:
    def lines(on: str | None) -> list[dict[str, Any]]:
        return [{"parameters": {"on": on}}]

    placement.resumed(None, lines(None), "RUN")
    placement.resumed("auto", lines("ray"), "RUN")
    placement.resumed("auto", [], "RUN")
    with pytest.raises(VenturiError, match="RUN was begun on ray: say where again"):
        placement.resumed(None, lines("ray"), "RUN")
    with pytest.raises(VenturiError, match="RUN was begun without it"):
        placement.resumed("spark", lines(None), "RUN")


def test_loaders_without_a_place_are_told(tmp_path: Path) -> None:
    words = ("--streams", "2", "--rows-per-stream", "1M", "--repeats", "1", "--no-report")
    done = model(*words, "--loaders", "2", "--out", tmp_path / "run")
    assert done.returncode == 0
    assert "no --on: all streams run in this process" in done.stderr


def test_a_plan_of_several_hosts_needs_no_cluster() -> None:
    done = venturi("run", "--streams", "8", "--loaders", "1,2,4", "--on", "auto", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("loaders=") == 3


def test_without_ray_the_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('no')\n")
    found = environment()
    found["PYTHONPATH"] = os.pathsep.join([str(tmp_path), found["PYTHONPATH"]])
    words = command("run", "--streams", "2", "--on", "local", "--out", tmp_path / "run")
    done = subprocess.run(words, capture_output=True, text=True, env=found, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    assert "--on needs Ray, which is not installed here" in done.stderr
    assert "pip install 'venturi[cluster]'" in done.stderr
    assert not (tmp_path / "run").exists()
