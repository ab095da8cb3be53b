"""A stage of either end that is slowed down on purpose is the one that has the time, and the one that the
verdict names."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.summary import summarise
from venturi.analysis.verdict.judge import judge
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What
from venturi.targets.handicap import CLIENT_STAGES, SERVER_STAGES
from venturi.targets.system import ONE_HOST, is_ours
from venturi.targets.urls import split_url

__all__ = ["prove"]

HANDICAP_NS = 2_000_000
_CROWDED = "await_thread"
_WAITS = {
    ("get", "client"): ("await_output", "await_window"),
    ("get", "server"): ("await_input",),
    ("put", "client"): ("await_input",),
    ("put", "server"): ("await_output", "await_window"),
}
"""At which stages the other end waits, by operation and the end that is slow."""
_TICK_NS = 10_000_000
_BATCHES = 40
_WINDOW = "64Ki"
_ROWS = 8192
"""A batch: with all of them in the sockets' buffers the other end would be done before it can be held up."""


def prove(bench: Bench, short: bool = False) -> Proof:
    if not bench.handicapped:
        return Proof(Name.BOTTLENECK, Outcome.IMPOSSIBLE, (), [("bottleneck", Reason.NO_HANDICAP)])
    if bench.somebodys:
        return Proof(Name.BOTTLENECK, Outcome.IMPOSSIBLE, (), [("bottleneck", Reason.NO_LENGTH)])
    checks, missing = Checks(), []
    with contextlib.ExitStack() as stack:
        servers: list[_Slowed] = []
        if is_ours(bench.url):
            servers = _servers(bench, stack)
        else:
            missing.append(("server", Reason.NO_HANDICAP))
        for operation in bench.operations:
            for stage in CLIENT_STAGES[operation]:
                checks += attempts(bench, _one, operation, "client", stage, None, most=2)
            if bench.streams > 1:
                checks += attempts(bench, _crowded, operation, CLIENT_STAGES[operation][-1], most=2)
            else:
                missing.append(("crowded", Reason.ONE_STREAM))
        for server in servers:
            for operation, stage in server.stages.items():
                at = f"{server.url}/venturi_prove" if stage == "apply" else server.url
                checks += attempts(bench, _one, operation, "server", stage, at, most=2)
        checks += _named_waits(bench, servers)
        for operation in servers[0].stages if servers else ():
            if "connections" in bench.options(operation):
                checks += attempts(bench, _shared, operation, servers[0], most=2)
        if len(servers) > 1 and bench.system.scheme not in ONE_HOST:
            checks += attempts(bench, _together, servers[:2], most=2)
    return Proof(Name.BOTTLENECK, checks.outcome, checks, missing)


def _named_waits(bench: Bench, servers: Sequence[_Slowed]) -> Checks:
    """What a sender waits for has a name of its own: a window, a reply."""
    checks = Checks()
    if "get" in bench.operations and bench.takes(operation="get", window=_WINDOW):
        checks += attempts(
            *(bench, _one, "get", "client", "verify", None, ("await_window",)), most=2, window=_WINDOW
        )
    if servers and "put" in bench.operations and "ack" in bench.options("put"):
        put = servers[0].stages["put"]
        checks += attempts(
            *(bench, _one, "put", "server", put, servers[0].url, ("await_reply",)), most=2, ack="batch"
        )
    return checks


@dataclass(frozen=True)
class _Slowed:
    """A server that is slow at one stage of each operation."""

    stages: dict[str, str]
    url: str
    pid: int | None


def _servers(bench: Bench, stack: contextlib.ExitStack) -> list[_Slowed]:
    stages = SERVER_STAGES[bench.system.scheme]
    rounds: list[dict[str, str]] = []
    for operation in bench.operations:
        for number, stage in enumerate(stages.get(operation, ())):
            if number == len(rounds):
                rounds.append({})
            rounds[number][operation] = stage
    texts = ["+".join(f"{stage}={HANDICAP_NS}ns" for stage in one.values()) for one in rounds]
    slowed = bench.slowed(stack, texts)
    return [_Slowed(one, url, pid) for one, (url, pid) in zip(rounds, slowed, strict=True)]


def _one(
    bench: Bench,
    operation: str,
    end: str,
    stage: str,
    at: str | None,
    waits: Sequence[str] | None = None,
    **more: Any,
) -> Checks:
    """One stage that is slow. `waits`: at which the other end waits then, with these settings."""
    slowed: dict[str, Any] = {"handicap": f"{stage}={HANDICAP_NS}ns"} if end == "client" else {}
    if at is not None and split_url(at).path and "protocol" in bench.options(operation):
        slowed["protocol"] = "path"
    trial = bench.trial(
        at=at,
        operation=operation,
        streams=1,
        rows_per_batch=_ROWS,
        rows_per_stream=_ROWS * _BATCHES,
        **slowed,
        **more,
    )
    of: dict[str, Any] = {"operation": operation, "end": end, "stage": stage, **more}
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], **of)
    if not trial.ok:
        return checks
    record, noisy = trial.record, trial.outside.noisy
    stages = record["stages"][end] or {}
    burned = _BATCHES * HANDICAP_NS
    # It burns CPU time of the stage's thread, whose clock runs meanwhile.
    most = ((record["workers"] or {}).get(end) or {}).get("time_ns")
    checks.between(What.HANDICAP, burned, stages.get(stage), "ns", burned * 0.999, most, **of)
    working = {name: ns for name, ns in stages.items() if not name.startswith("await")}
    other = max((ns for name, ns in working.items() if name != stage), default=0)
    checks.between(What.STAGES, 0.0, other, "ns", 0.0, burned / 4, moves="up", noisy=noisy, **of)
    waits = waits or _WAITS.get((operation, end))
    theirs = record["stages"]["client" if end == "server" else "server"]
    waited = {n: ns for n, ns in (theirs or {}).items() if n.startswith("await") and n != _CROWDED}
    if waits and sum(waited.values()) >= burned / 4 and not _held(record, operation):
        found = sum(waited.get(name, 0) for name in waits) / sum(waited.values())
        checks.between(
            What.WAIT, 1.0, found, "", 0.5, 1.0, moves="down", noisy=noisy, at="+".join(waits), **of
        )
    # One stream has each thread to itself.
    for name in ("client", "server"):
        crowded = (record["stages"][name] or {}).get(_CROWDED, 0)
        checks.between(
            What.CROWDED, 0.0, crowded, "ns", 0.0, burned / 4, moves="up", noisy=noisy, at=name, **of
        )
    if more:
        # A window or an acknowledgement for each batch is a narrow place of its own.
        return checks
    (cell,) = summarise([trial.line()])
    verdict = judge(cell)
    named = f"{verdict.end}: {verdict.stage}" if verdict.stage else verdict.kind
    right = named == f"{end}: {stage}"
    checks.between(What.STAGE, 1.0, float(right), "", 1.0, 1.0, moves="down", noisy=noisy, named=named, **of)
    return checks


def _held(record: Mapping[str, Any], operation: str) -> bool:
    """Whether the sockets may hold so much of it that a sender is done before it has to wait."""
    ends = ("server", "client") if operation == "get" else ("client", "server")
    held = 0
    for end, buffer in zip(ends, ("send_buffer_bytes", "receive_buffer_bytes"), strict=True):
        sockets = ((record["resources"] or {}).get(end) or {}).get("sockets") or {}
        held += int(sockets.get(buffer) or 0)
    return 2 * held > int(record["counts"]["payload_bytes"])


def _crowded(bench: Bench, operation: str, stage: str) -> Checks:
    """Two streams that share a thread: while one is slow, the other is ready and waits for the thread.
    A third has a thread of its own, which ends before theirs; CPU time counts to the end."""
    trial = bench.trial(
        operation=operation,
        streams=3,
        threads=2,
        rows_per_batch=_ROWS,
        rows_per_stream=_ROWS * _BATCHES // 2,
        handicap=f"{stage}={HANDICAP_NS}ns",
    )
    of: dict[str, Any] = {"operation": operation, "end": "client", "stage": stage, "streams": 3}
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], **of)
    if trial.ok:
        burned = _BATCHES * HANDICAP_NS
        found = trial.record["stages"]["client"].get(_CROWDED)
        checks.between(
            What.CROWDED, burned, found, "ns", burned / 2, None, moves="down", noisy=trial.outside.noisy, **of
        )
        burned = 3 * burned // 2
        used = sum(trial.record["cpu"]["client"].values())
        checks.between(What.CPU, burned, used, "ns", burned * 0.95, None, **of)
    return checks


def _together(bench: Bench, servers: Sequence[_Slowed]) -> Checks:
    """Two servers, a stream each: the stages and the CPU time of both are told as one."""
    operation = bench.operations[0]
    pids = [server.pid for server in servers]
    before = bench.cpu_ns(pids)
    trial = bench.trial(
        at=f"{servers[0].url},{servers[1].url.partition('://')[2]}",
        operation=operation,
        streams=2,
        rows_per_batch=_ROWS,
        rows_per_stream=_ROWS * _BATCHES,
    )
    of: dict[str, Any] = {"operation": operation, "end": "server", "servers": 2}
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], **of)
    if trial.ok:
        burned = _BATCHES * HANDICAP_NS
        for stage in (server.stages[operation] for server in servers):
            found = (trial.record["stages"]["server"] or {}).get(stage)
            checks.between(What.HANDICAP, burned, found, "ns", burned * 0.999, None, stage=stage, **of)
        told = sum((trial.record["cpu"]["server"] or {}).values())
        used = bench.cpu_ns(pids) - before
        # From before they were asked anything until after they had told: a little more.
        checks.between(What.CPU, used, told, "ns", used * 0.75 - 2 * _TICK_NS, used + 2 * _TICK_NS, **of)
    return checks


def _shared(bench: Bench, operation: str, server: _Slowed) -> Checks:
    """Two streams on one connection: what the server's thread does for one of them is not told of both."""
    trial = bench.trial(
        at=server.url,
        operation=operation,
        streams=2,
        connections="shared",
        rows_per_batch=_ROWS,
        rows_per_stream=_ROWS * _BATCHES // 2,
    )
    stage = server.stages[operation]
    of: dict[str, Any] = {"operation": operation, "end": "server", "stage": stage, "connections": "shared"}
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], **of)
    if trial.ok:
        burned, noisy = _BATCHES * HANDICAP_NS, trial.outside.noisy
        found = (trial.record["stages"]["server"] or {}).get(stage)
        checks.between(
            What.HANDICAP, burned, found, "ns", burned * 0.999, burned * 1.5, moves="up", noisy=noisy, **of
        )
        told = sum((trial.record["cpu"]["server"] or {}).values())
        checks.between(What.CPU, burned, told, "ns", burned * 0.95, burned * 1.5, **of)
    return checks
