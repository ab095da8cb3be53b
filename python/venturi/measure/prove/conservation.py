"""What must add up in every record: bytes, streams, stages, CPU time, batches in flight. What is held against
it was counted from outside, or is worked out again from the parts."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from venturi.cluster.trial.merge import Part, merge
from venturi.cluster.trial.shares import Share
from venturi.common import hdr
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.outcome import Checks, Name, Proof, Reason, What
from venturi.targets.system import batches_as_asked, is_unix

__all__ = ["of_record", "prove"]

_TICK_NS = 10_000_000
_BATCHES, _COUNTED = 200, 100_000
_CONNECTIONS, _PLACEMENTS = 4, 3
_HEADERS = 1.2
"""Headers, acknowledgements, and what was on its way when the clock stopped."""


def prove(bench: Bench, short: bool = False) -> Proof:
    """Of all trials that were made before, and of one of each operation with all it has."""
    missing: list[tuple[str, Reason]] = []
    for operation in bench.operations:
        if bench.somebodys:
            bench.trial(operation=operation, streams=1)
            continue
        rows = int(bench.cell(operation=operation).parameters["rows_per_batch"])
        bench.trial(operation=operation, streams=2, threads=2, rows_per_stream=rows * _BATCHES)
        # Both threads count all the time, where there is nothing else to do.
        bench.trial(at="empty://", operation=operation, streams=2, threads=2, rows_per_stream=rows * _COUNTED)
        if "connections" in bench.options(operation):
            bench.trial(operation=operation, streams=2, rows_per_stream=rows * _BATCHES, connections="shared")
    checks = Checks()
    good = [trial for trial in bench.trials if trial.ok and trial.record["counts"]["batches"]]
    for trial in good:
        checks += of_record(trial)
    for operation in bench.operations:
        one = [trial for trial in good if trial.cell.parameters["operation"] == operation][-1:]
        for trial in one:
            checks += _merged(trial)
        if bench.framed and not bench.somebodys:
            checks += _proportional(bench, operation)
    if not bench.somebodys:
        checks += _raw_tcp(bench)
    if not any(trial.outside.loopback_bytes for trial in good):
        unseen = Reason.NO_NETWORK if is_unix(bench.url) else Reason.NO_PLACE
        missing.append(("interface", unseen))
    if not any((trial.record["cpu"] or {}).get("server") for trial in good):
        missing.append(("server-cpu", Reason.NO_ACCOUNT))
    return Proof(Name.CONSERVATION, checks.outcome, checks, missing, figures={"records": float(len(good))})


def of_record(trial: Trial) -> Checks:
    """All that must hold of one trial."""
    checks = Checks()
    of: dict[str, Any] = {"trial": f"{trial.cell.parameters['operation']}-{trial.cell.id[-8:]}"}
    _streams(checks, trial, of)
    _bytes(checks, trial, of)
    _cpu(checks, trial, of)
    _stages(checks, trial, of)
    _latencies(checks, trial, of)
    _samples(checks, trial, of)
    _verified(checks, trial, of)
    return checks


def _streams(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    """The trial is its streams together, and lasts until the last of them ends."""
    record, p = trial.record, trial.cell.parameters
    streams, counts, times = record["streams"], record["counts"], record["times"]
    checks.same(What.STREAMS, p["streams"], len(streams), "", **of)
    checks.same(What.STREAMS, p["streams"], len({one["stream"] for one in streams}), "", part="numbers", **of)
    threads = 1 + max(one["thread"] for one in streams)
    checks.between(What.STREAMS, p["threads"], threads, "", 1, p["threads"], part="threads", **of)
    for name in ("rows", "batches", "payload_bytes"):
        checks.same(What.STREAMS, sum(one[name] for one in streams), counts[name], "", part=name, **of)
    if p["row_bytes"] and p["operation"] in ("get", "put"):
        checks.same(What.PAYLOAD, counts["rows"] * p["row_bytes"], counts["payload_bytes"], "B", **of)
    if p["rows_per_stream"]:
        checks.same(What.ROWS, p["rows_per_stream"] * p["streams"], counts["rows"], "rows", **of)
        if batches_as_asked(p):
            checks.same(What.BATCHES, trial.batches, counts["batches"], "", **of)
    checks.same(What.INTERVAL, max(one["end_ns"] for one in streams), times["interval_ns"], "ns", **of)
    checks.between(
        What.INTERVAL, times["interval_ns"], trial.outside.elapsed_ns, "ns", times["interval_ns"], None, **of
    )
    for one in streams:
        if one["batches"]:
            checks.between(
                What.INTERVAL, one["end_ns"], one["first_batch_ns"], "ns", one["start_ns"], one["end_ns"],
                part=f"stream-{one['stream']}", **of,
            )  # fmt: skip
    began = max(one["start_ns"] for one in streams)
    checks.between(What.INTERVAL, began, times["start_skew_ns"], "ns", began, None, part="skew", **of)
    _steady(checks, trial, of)


def _steady(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    record, p = trial.record, trial.cell.parameters
    streams, times = record["streams"], record["times"]
    if (p.get("in_flight") or 1) > 1 or not all(one["batches"] for one in streams):
        return
    window = min(one["end_ns"] for one in streams) - max(one["first_batch_ns"] for one in streams)
    if window <= 0:
        checks.same(What.STEADY, 0, times["steady_ns"], "ns", **of)
        return
    checks.same(What.STEADY, window, times["steady_ns"], "ns", **of)
    if not batches_as_asked(p):
        # How many rows a batch has is not known.
        return
    # The first batch of one stream alone is before it; marks are a batch apart.
    most = record["counts"]["rows"]
    checks.between(What.STEADY, most, times["steady_rows"], "rows", 0, most - p["rows_per_batch"] + 1, **of)
    if len(streams) == 1:
        # Marks are a batch apart up to 4096 batches, then coarser.
        checks.near(
            What.STEADY, most - p["rows_per_batch"], times["steady_rows"], "rows", 0.001, more=1,
            part="alone", **of,
        )  # fmt: skip
    if p["row_bytes"] and p["operation"] in ("get", "put"):
        checks.near(
            What.STEADY, times["steady_rows"] * p["row_bytes"], times["steady_payload_bytes"], "B", 0.001,
            more=2 * p["row_bytes"], part="payload", **of,
        )  # fmt: skip


def _bytes(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    """Payload, wire, interface: each has what is in it."""
    counts, outside = trial.record["counts"], trial.outside
    wire = counts["wire_bytes"]
    if not wire:
        return
    if trial.cell.parameters["operation"] in ("get", "put") and not trial.cell.parameters.get("compression"):
        checks.between(What.WIRE, counts["payload_bytes"], wire, "B", counts["payload_bytes"], None, **of)
    if outside.loopback_bytes is not None:
        # Others may use it too. A relay carries everything twice.
        checks.between(
            What.INTERFACE, wire, outside.loopback_bytes, "B", wire * (2 if trial.relay else 1), None, **of
        )
    network = ((trial.record["resources"] or {}).get("client") or {}).get("network") or {}
    if network.get("loopback") and outside.loopback_bytes is not None:
        checks.between(
            What.INTERFACE, outside.loopback_bytes, network["rx_bytes"], "B", 0, outside.loopback_bytes,
            part="resources", **of,
        )  # fmt: skip


def _cpu(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    """CPU time is at most what the kernel counted of the process around it, and what the cores had."""
    record, outside = trial.record, trial.outside
    interval = record["times"]["interval_ns"]
    for end, counted in (("client", outside.own_cpu_ns), ("server", outside.server_cpu_ns)):
        told = (record["cpu"] or {}).get(end)
        if not told:
            continue
        spent = told["user_ns"] + told["system_ns"]
        if counted is not None:
            # The kernel counts another process by ticks, a part of each of which may be somebody's else.
            room = 2 * _TICK_NS if end == "server" else 1e6
            checks.between(What.CPU, counted, spent, "ns", 0, counted + room, end=end, **of)
        if end == "client":
            # The server's cores may be others, and more.
            checks.between(
                What.CPU, outside.cores * interval, spent, "ns", 0,
                outside.cores * (interval * 1.05 + _TICK_NS), end=end, part="cores", **of,
            )  # fmt: skip
    burned = _handicap_ns(trial)
    if burned:
        told = record["cpu"]["client"]
        checks.between(
            What.CPU,
            burned,
            told["user_ns"] + told["system_ns"],
            "ns",
            burned * 0.98,
            None,
            part="burned",
            **of,
        )


def _handicap_ns(trial: Trial) -> int:
    from venturi.targets.handicap import nanoseconds

    text = trial.cell.parameters.get("handicap")
    return sum(nanoseconds(text).values()) * int(trial.record["counts"]["batches"]) if text else 0


def _stages(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    """Stages fill the workers' time, and workers are the streams."""
    record, p = trial.record, trial.cell.parameters
    for end in ("client", "server"):
        stages, workers = (record["stages"] or {}).get(end), (record["workers"] or {}).get(end)
        if stages and workers:
            checks.near(
                What.STAGES, workers["time_ns"], sum(stages.values()), "ns", 0.02, more=2e5, end=end, **of
            )
    client = record["workers"]["client"]
    pools = (record.get("pools") or {}).get("client") or {}
    lanes = p["streams"] * (p.get("in_flight") or 1)
    threads = sum(pool["threads"] for pool in pools.values())
    checks.same(What.WORKERS, lanes + threads, client["workers"], "", end="client", **of)
    lasted = sum(one["end_ns"] for one in record["streams"])
    if not pools and lanes == p["streams"]:
        checks.near(
            What.WORKERS, lasted, client["time_ns"], "ns", 0.02, more=2e5, end="client", part="time", **of
        )
    for one in record["streams"]:
        if one["stages"] and not pools and lanes == p["streams"]:
            checks.near(
                What.STAGES, one["end_ns"], sum(one["stages"].values()), "ns", 0.02, more=5e5,
                part=f"stream-{one['stream']}", **of,
            )  # fmt: skip


def _latencies(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    """Each batch has one latency; percentiles are those of the histogram; Little's law."""
    record, p = trial.record, trial.cell.parameters
    batches = record["counts"]["batches"]
    for name in ("service", "response"):
        one = (record["latency"] or {}).get(name)
        if not one:
            checks.same(
                What.LATENCIES, "none", "none" if name == "response" and not p["rate"] else "missing", **of
            )
            continue
        checks.same(What.LATENCIES, batches, one["count"], "", latency=name, **of)
        counts = hdr.decode(one["hdr"])
        checks.same(What.LATENCIES, batches, sum(counts.values()), "", latency=name, part="hdr", **of)
        if not counts:
            continue
        for percent, ns in one["percentiles"]:
            if percent in (50.0, 90.0, 95.0, 99.0, 100.0):
                right = hdr.percentile(counts, percent)
                checks.near(
                    What.PERCENTILE, right, ns, "ns", 0.0011, more=1, percent=percent, latency=name, **of
                )
        mean = sum(value * count for value, count in counts.items()) / batches
        checks.near(What.LATENCIES, mean, one["mean"], "ns", 0.002, more=1, latency=name, part="mean", **of)
    service = record["latency"]["service"]
    lanes = p["streams"] * (p.get("in_flight") or 1)
    if p["rate"] is None and p["operation"] == "get" and batches and not record.get("pools"):
        # Closed loop: on each stream there is always one batch in flight, from the start to its last.
        lasted = sum(one["end_ns"] - one["start_ns"] for one in record["streams"])
        checks.near(
            What.LITTLE,
            lanes,
            service["mean"] * batches / max(lasted, 1) * lanes,
            "streams",
            0.01,
            more=0.01,
            **of,
        )


def _samples(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    """The last sample has all that was counted."""
    client = (trial.record["samples"] or {}).get("client")
    if not client or not client.get("t_ns"):
        return
    counts = trial.record["counts"]
    for name in ("rows", "payload_bytes"):
        column = client.get(name)
        if column:
            checks.same(What.SAMPLES, counts[name], column[-1], "", part=name, **of)
            falling = sum(after < before for before, after in pairwise(column))
            checks.same(What.SAMPLES, 0, falling, "", part=f"{name}-falling", **of)
    times = client["t_ns"]
    checks.between(
        What.SAMPLES, trial.record["times"]["interval_ns"], times[-1], "ns",
        trial.record["times"]["interval_ns"] * 0.999, trial.outside.elapsed_ns, part="last", **of,
    )  # fmt: skip


def _raw_tcp(bench: Bench) -> Checks:
    """A limit has what the kernel has counted: of the best of three placements, and of all its connections.
    That of a single one would be less than a third of what passed."""
    checks = Checks()
    found = bench.raw_tcp(bench.cell(streams=_CONNECTIONS))
    if found is None or found[1].loopback_bytes is None:
        return checks
    line, outside = found
    checks.same(What.OUTCOME, "ok", line["outcome"], part="raw-tcp")
    checks.between(
        What.INTERFACE, line["bytes"], outside.loopback_bytes, "B", line["bytes"],
        _PLACEMENTS * _HEADERS * line["bytes"], moves="up", noisy=outside.noisy, part="raw-tcp",
    )  # fmt: skip
    return checks


def _proportional(bench: Bench, operation: str) -> Checks:
    """Twice the batches are twice the bytes on the wire, to less than half a batch: more than that was there
    before the first one, and is none of the trial's."""
    rows = int(bench.cell(operation=operation).parameters["rows_per_batch"])
    batches = (8, 16)
    few, many = (bench.trial(operation=operation, streams=1, rows_per_stream=rows * n) for n in batches)
    checks = Checks()
    if few.ok and many.ok:
        one, two = (trial.record["counts"]["wire_bytes"] for trial in (few, many))
        half = (two - one) / batches[0] / 2
        checks.between(What.WIRE, 0.0, 2 * one - two, "B", -half, half, operation=operation, part="before")
    return checks


def _verified(checks: Checks, trial: Trial, of: dict[str, Any]) -> None:
    found = trial.record["verification"] or {}
    operation = trial.cell.parameters["operation"]
    if found.get("achieved") in ("count", "checksum") and operation != "upsert":
        # What is verified was counted by the target: the engine's count is another. The rest of a get whose
        # time is over is received, and not counted.
        rows = found["rows"]
        least = 0 if operation == "get" else rows
        checks.between(
            What.ROWS, rows, trial.record["counts"]["rows"], "rows", least, rows, part="both", **of
        )
    if found.get("expected_checksum") is not None:
        checks.same(What.OUTCOME, found["expected_checksum"], found["checksum"], part="checksum", **of)
    if found.get("expected_rows") is not None:
        checks.same(What.ROWS, found["expected_rows"], found["rows"], "rows", part="verified", **of)


def _merged(trial: Trial) -> Checks:
    """Two loaders' records as one: what each did is there once."""
    checks = Checks()
    record, count = trial.record, len(trial.record["streams"])
    parts = []
    for number in range(2):
        streams = [one | {"stream": one["stream"] + number * count} for one in record["streams"]]
        share = Share(first=number * count, count=count)
        parts.append(
            Part(f"loader-{number + 1}", share, {**record, "streams": streams}, lead=number == 0,
                 identity={"boot_id": f"boot-{number}", "pid": number})
        )  # fmt: skip
    whole = merge(parts)
    of: dict[str, Any] = {"operation": trial.cell.parameters["operation"]}
    for name in ("rows", "batches", "payload_bytes", "wire_bytes"):
        checks.same(What.MERGED, 2 * record["counts"][name], whole["counts"][name], "", part=name, **of)
    checks.same(What.MERGED, 2 * count, len(whole["streams"]), "", part="streams", **of)
    checks.same(
        What.MERGED,
        record["times"]["interval_ns"],
        whole["times"]["interval_ns"],
        "ns",
        part="interval",
        **of,
    )
    cpu, both = record["cpu"]["client"], whole["cpu"]["client"]
    for name in ("user_ns", "system_ns"):
        checks.same(What.MERGED, 2 * cpu[name], both[name], "ns", part=name, **of)
    one, two = record["latency"]["service"], whole["latency"]["service"]
    checks.same(What.MERGED, 2 * one["count"], two["count"], "", part="latencies", **of)
    checks.near(What.MERGED, one["mean"], two["mean"], "ns", 0.002, more=1, part="mean", **of)
    for stage, ns in record["stages"]["client"].items():
        checks.same(What.MERGED, 2 * ns, whole["stages"]["client"].get(stage), "ns", part=stage, **of)
    return checks
