"""Physical limits: which apply to a cell, how they are kept between runs, what the command says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support import model
from support.golden import kept
from support.mistakes import check
from support.model import ModelExecutor
from support.run import venturi
from support.verdict import summarise
from venturi.analysis.cells.limits import limits, narrowest
from venturi.common import environment
from venturi.common.environment import file_system
from venturi.measure import ceiling_probes, machine_cache, prove
from venturi.measure.ceiling_probes import probes, seconds
from venturi.measure.ceilings import cache_key
from venturi.measure.machine_cache import LIFETIME_SECONDS, CeilingCache
from venturi.plan.cell import Cell
from venturi.store.directory import RunDirectory

PARAMETERS: dict[str, Any] = {
    "operation": "put", "place": "local", "target": "flight://local", "data": "records", "columns": 4,
    "values": "random", "row_bytes": 32.0, "rows_per_batch": 4096, "streams": 2, "threads": 2,
    "verify": "checksum", "compression": None,
}  # fmt: skip
LABEL = "records, 4 columns, random"
SIZE = 131_072


def line(kind: str, rate: float, **fields: Any) -> dict[str, Any]:
    known = {"tcp": {"place": "local", "direction": "put", "streams": 2, "message_bytes": SIZE}}
    known["memory"] = {"end": "client", "name": "copy", "threads": 2}
    known["disk"] = {"end": "client", "name": "fsync", "path": "/data"}
    known["codec"] = {"end": "client", "name": "zstd-encode", "data": LABEL, "message_bytes": SIZE}
    known["engine"] = {"name": "checksum", "streams": 2, "threads": 2, "data": LABEL, "message_bytes": SIZE}
    return {"kind": kind, "outcome": "ok", **known[kind], "bytes": int(rate), "interval_ns": 10**9, **fields}


def cell(lines: list[dict[str, Any]], wire: float = 1.0, **parameters: Any) -> Any:
    record = {
        "kind": "trial", "cell": "c", "outcome": "ok", "parameters": PARAMETERS | parameters,
        "counts": {"rows": 4096, "batches": 1, "payload_bytes": 10**9, "wire_bytes": int(10**9 / wire)},
        "times": {"interval_ns": 10**9},
    }  # fmt: skip
    return summarise([record, record], lines)[0]


TCP, MEMORY = line("tcp", 5e9), line("memory", 11e9)


def fields(words: list[str]) -> dict[str, Any]:
    """Values are JSON, or else texts."""

    def value(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    return {name: value(text) for name, text in (word.split("=", 1) for word in words)}


def test_which_limits_apply() -> None:
    """The first line of a case has parameters of a trial that moves 1 GB/s, each other line a probe: its
    kind, its GB/s, its fields."""

    def said(case: str) -> str:
        of_trial, *probed = [text.split() for text in case.splitlines() if not text.startswith("#")]
        lines = [line(kind, float(rate) * 1e9, **fields(more)) for kind, rate, *more in probed]
        found = cell(lines, **fields(of_trial[1:]))
        if not found.ceilings:
            assert found.binding is None and not found.share.measured
            return "no limit"
        limits = ", ".join(f"{name} {q.value / 1e9:g}" for name, q in sorted(found.ceilings.items()))
        return (
            f"{limits}\nbinds: {found.binding} {found.ceiling.value / 1e9:g}, share {found.share.value:.3g}"
        )

    check("limits", said, "texts")


def test_cells_alike_share_their_probes() -> None:
    two = [Cell(PARAMETERS), Cell(PARAMETERS | {"rows_per_stream": 5})]
    sizes = [Cell(PARAMETERS), Cell(PARAMETERS | {"rows_per_batch": 7})]
    assert sum(probe.kind == "tcp" for probe in probes(sizes)) == 1
    assert len(probes(two)) == len(probes(two[:1])) and 1 < seconds(probes(two)) < 10


# Kept from run to run.


def cached(age_seconds: float = 0.0, **change: Any) -> dict[str, Any]:
    measured = time.time_ns() - int(age_seconds * 1e9)
    return {"outcome": "ok", "bytes": 5, "interval_ns": 7, "measured_unix_ns": measured} | change


def test_what_was_kept_is_found_for_an_hour(tmp_path: Path) -> None:
    cache, key = CeilingCache(tmp_path, "host"), {"kind": "memory", "threads": 2}
    assert cache.get(key) == []
    lines = [cached(), cached(60)]
    cache.put(key, lines)
    assert cache.get(key) == lines
    assert cache.get({"kind": "memory", "threads": 1}) == []
    assert CeilingCache(tmp_path, "another boot").get(key) == []
    later = time.time_ns() + (LIFETIME_SECONDS - 59) * 10**9
    assert cache.get(key, later) == []
    # A clock that was set back.
    assert cache.get(key, time.time_ns() - 120 * 10**9) == []


@pytest.mark.parametrize(
    "damage",
    ["", "{", "null", "[]", '{"format": 1}', '{"format": 2, "lines": []}', "\xff\xfe", '{"lines": {}}'],
)
def test_a_damaged_file_is_measured_again(tmp_path: Path, damage: str) -> None:
    cache, key = CeilingCache(tmp_path, "host"), {"kind": "memory"}
    cache.put(key, [cached()])
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(damage.encode("latin-1"))
    assert cache.get(key) == []
    cache.put(key, [cached()])
    assert len(cache.get(key)) == 1


@pytest.mark.parametrize(
    "change", [{"bytes": "5"}, {"outcome": "failed"}, {"interval_ns": 0}, {"bytes": True}]
)
def test_lines_that_are_not_good_are_not_taken(tmp_path: Path, change: dict[str, Any]) -> None:
    cache = CeilingCache(tmp_path, "host")
    cache.put({}, [cached(), cached(**change)])
    assert cache.get({}) == []


def test_a_cache_that_cannot_be_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder, host in ((None, "h"), (tmp_path, None), (tmp_path / "file", "h")):
        cache = CeilingCache(folder, host)
        cache.put({}, [cached()])
        assert cache.get({}) == []


def test_old_files_are_removed(tmp_path: Path) -> None:
    old = tmp_path / "0.json"
    old.write_text("{}")
    os.utime(old, (1, 1))
    CeilingCache(tmp_path, "host").put({}, [cached()])
    assert not old.exists() and len(list(tmp_path.iterdir())) == 1


def test_the_cache_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert machine_cache.directory("ceilings") == tmp_path / "venturi" / "ceilings"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert machine_cache.directory("ceilings") == Path("/home/somebody/.cache/venturi/ceilings")
    first = machine_cache.machine()
    assert first == machine_cache.machine() and (first is None or len(first) == 64)


def test_a_far_host_is_kept_only_where_it_can_be_told(tmp_path: Path) -> None:
    def key(peers: Any = None, **change: Any) -> dict[str, Any] | None:
        tcp = next(p for p in probes([Cell(PARAMETERS | change)]) if p.kind == "tcp")
        return cache_key(tcp, peers or {})

    def told(*boots: str | None) -> Any:
        return {"node7": {f"node7:{n}": {"boot_id": boot, "kernel": "6"} for n, boot in enumerate(boots)}}

    far = {"target": "flight://node7:1", "place": "node7"}
    assert key(**far) is None and key(told(None), **far) is None
    one, other = (key(told(boot), **far) for boot in ("a", "b"))
    assert one is not None and other is not None and one != other
    # Of several servers each must tell.
    both = {"target": "flight://node7:1,node7:2", "place": "node7"}
    assert key(told("a", None), **both) is None and key({"node7": {"node7:1": None}}, **both) is None
    one, other = (key(told("a", boot), **both) for boot in ("b", "c"))
    assert one is not None and other is not None and one != other
    # All of a loopback's places are the same way.
    assert key() == key(target="flight://127.0.0.1:9", place="127.0.0.1:9") != None  # noqa: E711
    data = tmp_path / "rows.parquet"
    data.write_text("1")
    engine = next(p for p in probes([Cell(PARAMETERS | {"data": str(data)})]) if p.kind == "engine")
    before = cache_key(engine, {})
    data.write_text("12")
    assert before != cache_key(engine, {})


def test_a_run_takes_over_what_another_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(ModelExecutor, "measures", True)
    monkeypatch.setattr(model, "_EPOCH_NS", time.time_ns())
    monkeypatch.setattr(prove, "before_run", lambda *_, **__: None)

    def run(name: str, *more: str) -> tuple[list[dict[str, Any]], str]:
        done = venturi(
            *("run", "--executor", "support.model", "--streams", "1", "--operation", "put", "--repeats", "1"),
            *("--rows-per-stream", "1M", "--warmup", "0", "--no-report", "--ceilings", "once", *more),
            *("--out", tmp_path / name),
        )
        assert done.returncode == 0, done.stderr
        return RunDirectory(tmp_path / name).ceiling_records(), done.stderr

    def without(lines: list[dict[str, Any]]) -> list[str]:
        return sorted(repr({k: v for k, v in x.items() if k != "cached"}) for x in lines)

    first, said = run("a")
    assert {x["kind"] for x in first} == {"tcp", "memory", "engine"}
    assert {x["outcome"] for x in first} == {"ok"} and not any(x["cached"] for x in first)
    assert "info: measuring ceilings: memory copy" in said
    second, said = run("b")
    assert [x["kind"] for x in second if not x["cached"]] == []
    assert "--fresh-ceilings" in said
    assert without(first) == without(second)
    third, said = run("c", "--fresh-ceilings")
    assert not any(x["cached"] for x in third) and "used again" not in said


# The probes themselves; what they find of this machine is in tests/machine/test_ceilings.py.


def probe(core: Any, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(core.probe(json.dumps(spec), core.Control()))
    return found


def test_a_codec_says_how_small_it_has_made_its_data(core: Any) -> None:
    data = {"source": "records", "columns": 4, "values": "sequential", "seed": 1}
    found = probe(
        core, kind="codec", name="zstd-encode", data=data, rows_per_batch=4096, duration_ns=5_000_000
    )
    assert found["bytes"] > 2 * found["encoded_bytes"] > 0


def test_disk(core: Any, tmp_path: Path) -> None:
    spec = {"kind": "disk", "path": str(tmp_path), "most_bytes": 16 << 20, "duration_ns": 5_000_000}
    assert probe(core, name="fsync", **spec)["outcome"] == "ok"
    direct = probe(core, name="direct", **spec)
    if direct["outcome"] != "ok":
        assert "direct I/O is not possible" in direct["error"]["message"]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValueError, match="unknown variant"):
        core.probe('{"kind": "tape"}', core.Control())


def test_a_probe_that_is_cancelled_leaves_nothing(core: Any, tmp_path: Path) -> None:
    control = core.Control()
    control.cancel()
    spec = {"kind": "disk", "name": "fsync", "path": str(tmp_path), "most_bytes": 1 << 30}
    answer = json.loads(core.probe(json.dumps(spec | {"duration_ns": 60 * 10**9}), control))
    assert (answer["outcome"], answer["error"]["kind"]) == ("interrupted", "cancelled")
    assert list(tmp_path.iterdir()) == []


# The command.


COMMANDS = (
    "ceilings --streams 1,4 --disk /",
    "ceilings --only codec --values sequential",
    "ceilings flight://node7 --only tcp --streams 1",
)


def test_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    # One usable CPU, so that the rows are the same on every machine; a directory of few letters.
    for module in (ceiling_probes, environment):
        monkeypatch.setattr(module, "usable_cores", lambda: 1)
    printed = []
    for line in COMMANDS:
        done = venturi(*line.split(), "--executor", "support.model", "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        printed += [f"$ venturi {line}", *(text.rstrip() for text in done.stdout.splitlines()), ""]
    kept("ceilings", "\n".join(printed))


def test_limits_for_machines() -> None:
    words = ("--only", "tcp,engine", "--format", "json", "--repeats", "3")
    done = venturi("ceilings", "--executor", "support.model", *words)
    assert done.returncode == 0 and "info: measuring raw TCP get, 1 connection" in done.stderr
    found = json.loads(done.stdout)
    assert {limit["kind"] for limit in found["limits"]} == {"tcp", "engine"}
    assert all(limit["repeats"] == 3 and limit["bytes_per_second"] > 0 for limit in found["limits"])
    assert len(found["lines"]) == 3 * len(found["limits"]) and not found["interrupted"]
    assert found["narrowest"][0]["text"].startswith("the lowest limit of a loopback transfer on this machine")
    # The slower end rules, and that is who encodes.
    words = ("--only", "codec", "--values", "sequential", "--format", "json", "-q")
    done = venturi("ceilings", "--executor", "support.model", *words)
    zstd = json.loads(done.stdout)["codecs"][1]
    limits = {limit["title"]: limit["bytes_per_second"] for limit in json.loads(done.stdout)["limits"]}
    assert zstd["codec"] == "zstd"
    assert zstd["pays_below_bytes_per_second"] == pytest.approx(limits["zstd encode, 1 core"])


def test_a_host_that_does_not_answer(core: object) -> None:
    done = venturi(
        "ceilings", "flight://127.0.0.1:9", "--only", "tcp", "--streams", "1", "--repeats", "1", "-q"
    )
    assert done.returncode == 4
    assert re.search(r"^error: raw TCP get.*Connection refused", done.stderr, re.M)
    assert "hint: start a server there" in done.stderr and "loopback transfer on this machine" in done.stdout


def test_ctrl_c_prints_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModelExecutor.probe

    def interrupted(self: ModelExecutor, spec: str, control: Any) -> str:
        found = json.loads(real(self, spec, control))
        if json.loads(spec).get("name") == "zstd-encode":
            os.kill(os.getpid(), signal.SIGINT)
            found["outcome"] = "interrupted"
        return json.dumps(found)

    monkeypatch.setattr(ModelExecutor, "probe", interrupted)
    done = venturi("ceilings", "--executor", "support.model", "--only", "codec", "--repeats", "100")
    assert done.returncode == 130
    assert "lz4 encode, 1 core" in done.stdout and "zstd decode" not in done.stdout
    assert "warning: interrupted; these are the limits measured until then" in done.stderr


def test_the_narrowest_is_of_the_way_that_is_asked_for() -> None:
    far = line("tcp", 1e9, place="node7:31337")
    found = limits([TCP, far, MEMORY])
    near, way = narrowest(found), narrowest(found, "node7:31337")
    assert near is not None and near.text.startswith(
        "the lowest limit of a loopback transfer on this machine: 5,000 MB/s"
    )
    assert way is not None and "1,000 MB/s, raw TCP put, 2 connections, node7:31337" in way.text
    assert "memory copy, 2 cores 11,000 MB/s is x11 above" in way.text
    cached = narrowest(limits([line("tcp", 12e9), MEMORY]))
    assert cached is not None and "memory copy 11,000 MB/s does not bind" in cached.text
    assert narrowest(limits([line("disk", 1e9)])) is None


def test_file_systems_have_names() -> None:
    if sys.platform != "linux":
        assert file_system(Path("/")) is None
        return
    assert file_system(Path("/proc/self")) == "proc"
    assert file_system(Path("/sys/class")) == "sysfs"
    # As the kernel names it to `stat`, whose word for it is its own where the two differ.
    named = subprocess.run(
        ["stat", "-f", "-c", "%T", "/proc/self"], capture_output=True, text=True, check=True
    )
    assert named.stdout.strip() == "proc"
