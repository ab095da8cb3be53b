"""Trial records made to measure, after docs/format.md: what the tests of verdicts and findings judge."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from support.golden import kept
from support.run import DATA
from venturi.analysis.cells import summary
from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.judge import judge
from venturi.analysis.verdict.rules import RULES
from venturi.analysis.verdict.types import Verdict
from venturi.engine.record import Trial, trial_of

SECOND = 1_000_000_000
ENVIRONMENT = {"command": ["venturi", "run", "quick", "--streams", "1,2,4", "--out", "somewhere"]}


def host(busy: float = 0.15, cores: int = 8, **more: Any) -> dict[str, Any]:
    return {
        "cores": cores,
        "busy_share": busy,
        "softirq_share": 0.0,
        "steal_share": 0.0,
        "iowait_share": 0.0,
        "core_busy_share": [busy] * cores,
        "psi_cpu_share": 0.0,
        "psi_io_share": 0.0,
        **more,
    }


def end(busy: float = 0.15, cores: int = 8, by: str = "self", **parts: Any) -> dict[str, Any]:
    """One end's resources; `parts` are fields of its parts, as `network={"loopback": False}`."""
    made: dict[str, Any] = {
        "by": by,
        "window_ns": SECOND,
        "process": {"user_ns": SECOND // 4, "system_ns": SECOND // 4, "run_delay_ns": 0, "threads": []},
        "host": host(busy, cores),
        "cgroup": {"quota_cores": None, "throttled_ns": 0},
        "network": {"interface": "lo", "loopback": True, "rx_bytes": 0, "tx_bytes": 0,
                    "speed_bits_per_second": None},
        "disk": {"read_bytes": 0, "written_bytes": 0, "busy_share": 0.0},
        "sockets": {"count": 1, "rtt_ns": 50_000, "min_rtt_ns": 40_000, "retransmits": 0,
                    "send_buffer_bytes": 262_144, "busy_share": 1.0,
                    "receive_window_limited_share": 0.0, "send_buffer_limited_share": 0.0},
    }  # fmt: skip
    for name, fields in parts.items():
        made[name] = None if fields is None else {**made[name], **fields}
    return made


def trial(
    client: dict[str, float] | None = None,
    server: dict[str, float] | None = None,
    *,
    parameters: dict[str, Any] | None = None,
    rate: float = 1e9,
    repeat: int = 0,
    cell: str = "cell",
    same_machine: bool | None = True,
    client_end: dict[str, Any] | None = None,
    server_end: dict[str, Any] | None = None,
    cpu: tuple[float, float] | None = (0.5, 0.5),
    round_trip: int | None = None,
    helpers: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A trial of one second. Stages are shares of worker time, `cpu` is in cores; both default to idling."""
    given = {"operation": "get", "streams": 1, "threads": 1, "rows_per_batch": 4096, "row_bytes": 32.0,
             "target": "flight://10.0.0.2:31337", "window": None, "compression": None}  # fmt: skip
    settings = {**given, **(parameters or {})}
    streams = settings["streams"]
    client = {"await_input": 0.6, "receive": 0.4} if client is None else client
    server = {"await_output": 0.6, "send": 0.4} if server is None else server

    def stages(shares: dict[str, float]) -> dict[str, int] | None:
        return {n: int(s * SECOND * streams) for n, s in shares.items()} if shares else None

    record = {
        "format": 1, "kind": "trial", "cell": cell, "trial": f"{cell}-{repeat}", "repeat": repeat,
        "warmup": False, "outcome": "ok", "parameters": settings,
        "target": {"address": "10.0.0.2:31337", "software": "venturi", "reference": bool(server),
                   "round_trip_ns": round_trip},
        "counts": {"rows": int(rate / 32), "batches": int(rate / 32 / settings["rows_per_batch"]),
                   "payload_bytes": int(rate),
                   "wire_bytes": int(rate * 1.01)},
        "times": {"interval_ns": SECOND, "setup_ns": 0},
        "cpu": {
            "client": {"user_ns": int(cpu[0] * SECOND / 2), "system_ns": int(cpu[0] * SECOND / 2)},
            "server": {"user_ns": int(cpu[1] * SECOND / 2), "system_ns": int(cpu[1] * SECOND / 2)},
        } if cpu else {"client": None, "server": None},
        "stages": {"client": stages(client), "server": stages(server)},
        "workers": {"client": {"workers": streams, "time_ns": SECOND * streams},
                    "server": {"workers": streams, "time_ns": SECOND * streams} if server else None},
        "resources": {
            "same_machine": same_machine,
            "clock": {"offset_ns": 0, "uncertainty_ns": 0},
            "sampler": {"samples": 10, "cpu_ns": 0, "share": 0.0},
            "client": end() if client_end is None else client_end,
            "server": (end() if server_end is None else server_end) or None,
            **({"helpers": helpers} if helpers else {}),
        },
        "streams": [], "latency": {"service": None, "response": None}, "schedule": None, "pin": None,
        "instrument": {"clock_read_ns": 20.0, "clock_reads": 10, "share": 0.001},
    }  # fmt: skip
    return {**record, **more}


def summarise(lines: Iterable[Any], probes: Sequence[dict[str, Any]] = ()) -> list[Cell]:
    """The cells of trials, which may be lines of trials.jsonl as objects."""
    return summary.summarise([it if isinstance(it, Trial) else trial_of(whole(it)) for it in lines], probes)


def whole(value: Any, name: str = "") -> Any:
    """A line with whole counts and times, which the formulas of tests do not give."""
    if isinstance(value, dict):
        return {key: whole(it, f"{name}.{key}") for key, it in value.items()}
    if isinstance(value, list):
        return [whole(it, name) for it in value]
    counted = name.endswith(("_ns", "_bytes", "rows", "batches", "late", "intended")) or ".stages." in name
    return round(value) if counted and isinstance(value, float) else value


def cell_of(*records: dict[str, Any], probes: list[dict[str, Any]] | None = None) -> Cell:
    """The one cell of these trials; one trial stands for five like it."""
    lines = [{**r, "repeat": i} for i, r in enumerate(records * 5 if len(records) == 1 else records)]
    found = summarise(lines, probes or [])
    assert len(found) == 1
    return found[0]


def raw_tcp(rate: float, streams: int = 1, direction: str = "get", **more: Any) -> list[dict[str, Any]]:
    return [
        {"kind": "tcp", "direction": direction, "streams": streams, "message_bytes": 131072, "repeat": i,
         "bytes": int(rate), "interval_ns": SECOND, "outcome": "ok", **more}
        for i in range(3)
    ]  # fmt: skip


def cipher(seal: float, open_: float) -> list[dict[str, Any]]:
    """What one core does, bytes a second."""
    return [
        {"kind": "cipher", "end": "client", "name": name, "threads": 1, "repeat": i, "bytes": int(rate),
         "interval_ns": SECOND, "outcome": "ok"}
        for i in range(3)
        for name, rate in (("seal", seal), ("open", open_))
    ]  # fmt: skip


def verdict(
    *args: Any,
    probes: list[dict[str, Any]] | None = None,
    environment: dict[str, Any] = ENVIRONMENT,
    **settings: Any,
) -> Verdict:
    """The verdict of five equal trials made by `trial`."""
    return judge(cell_of(trial(*args, **settings), probes=probes), environment)


FAR = {"loopback": False}
RECEIVING = {"receive": 0.70, "decode": 0.05, "verify": 0.20, "await_input": 0.05}
SENDING = {"send": 0.60, "encode": 0.02, "await_output": 0.38}
IDLE_CLIENT, BLOCKED_SERVER = {"await_input": 0.9, "receive": 0.1}, {"await_output": 0.93, "send": 0.07}


def far(busy: float = 0.1, **sockets: Any) -> dict[str, Any]:
    return end(busy, network=FAR, sockets=sockets)


def with_ends(given: dict[str, Any], end: Callable[..., dict[str, Any]] = end) -> dict[str, Any]:
    """Makes the ends of a case by `end`; `both_ends` are two alike."""
    if "both_ends" in given:
        both = given.pop("both_ends")
        given |= {"client_end": both, "server_end": both}
    if "helpers" in given:
        given |= {"helpers": {role: end(**one) for role, one in given["helpers"].items()}}
    return given | {n: given[n] and end(**given[n]) for n in ("client_end", "server_end") if n in given}


def with_probes(given: dict[str, Any]) -> dict[str, Any]:
    """Makes the probes of a case: of raw TCP, of ciphers, or of memory at one rate whatever the threads."""
    probes = raw_tcp(**given.pop("raw_tcp")) if "raw_tcp" in given else []
    probes += cipher(*given.pop("cipher")) if "cipher" in given else []
    if "memory" in given:
        probes += [
            {"kind": "memory", "name": "copy", "end": "client", "threads": n, "bytes": given["memory"],
             "interval_ns": SECOND, "repeat": i, "outcome": "ok"} for n in (1, 8) for i in range(3)
        ]  # fmt: skip
        del given["memory"]
    return given | ({"probes": probes} if probes else {})


def check_table(name: str, make: Callable[..., Verdict]) -> None:
    """Compares the verdict of each case of tests/data/verdicts/NAME.toml with its cause, end and stage there,
    and all its words with a golden file. `make` gets the other fields; "none" is Python's None."""
    words, wrong = [], []
    for title, given in tomllib.loads((DATA / "verdicts" / f"{name}.toml").read_text()).items():
        expected = tuple(given.pop(field, None) for field in ("cause", "end", "stage"))
        found = make(**_with_none(given))
        if (found.cause, found.end, found.stage) != expected:
            wrong.append(f"{title}: {found}")
        if found.kind != "unknown":
            rules = [RULES[it.cause] for it in (found, found.also) if it]
            documented = {name for rule in rules for name in rule.changes}
            assert set(found.numbers) <= set(rules[0].numbers), (title, found.numbers)
            changed = {name for remedy in found.remedies for name in remedy.changes}
            assert changed <= documented, (title, changed - documented)
        words.append(f"# {title}\n{_words(found)}")
    assert wrong == [], "\n".join(wrong)
    kept(f"verdicts-{name}", "\n".join(words))


def _with_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_none(one) for name, one in value.items()}
    return (
        [_with_none(one) for one in value] if isinstance(value, list) else None if value == "none" else value
    )


def _words(found: Verdict) -> str:
    flags = [found.confidence, *(["flagged"] if found.flagged else [])]
    numbers = [f"{name} {value:.4g}" for name, value in found.numbers.items()]
    also = [f"also: {found.also.cause}, {found.also.end}"] if found.also else []
    return "".join(
        f"{line}\n"
        for line in (
            f"{found.title} [{found.cause}; {', '.join(flags)}]",
            *found.lines,
            *(f"  {one.name}: {one.text}" for one in found.evidence),
            *(["numbers: " + ", ".join(numbers)] if numbers else []),
            *also,
            *(f"- {text}" for text in found.next),
        )
    )
