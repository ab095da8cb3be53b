"""The definitions that stand in every report. In full: docs/method.md."""

from __future__ import annotations

NOTES = (
    (
        "payload",
        "The bytes of values moved: rows x width for fixed-width columns; offsets, data and validity "
        "actually "
        "referenced for others. Not what the sockets carried.",
    ),
    ("MB", "10^6 bytes. MiB, where it appears, is 2^20 bytes."),
    ("throughput", "Acknowledged (put) or decoded (get) payload over the interval."),
    (
        "interval",
        "From one start instant, after all streams are connected and warm, to the last stream's last batch. "
        "Planning, connecting and making the data are set-up and not in it, unless the scenario says "
        "include_setup.",
    ),
    (
        "steady",
        "The same over the window in which every stream is moving: from the last stream's first batch to the "
        "first stream's end.",
    ),
    (
        "median, 95 % interval",
        "Median over the good trials, warm-ups left out. From 6 repeats on the interval "
        "between two of them that covers 95 % for any distribution; below 6 the range, which covers "
        "93.75 % (5 repeats), 87.5 % (4), 75 % (3).",
    ),
    (
        "limit",
        "The lowest of the limits that Venturi measured for these trials: raw TCP (bare sockets, the same "
        "direction, as many connections), the copying of memory, the codec on "
        "the cores that use it, Venturi's own engine. The share's interval divides the ends of both "
        "intervals crosswise.",
    ),
    (
        "verdict",
        "What limits the configuration. The first of these proofs that holds: schedule, load generator (the "
        "figure is flagged), cores, pools, engine, plugin, cipher, one stage, link, disk, memory, flow "
        "control, losses, server, CPUs that others hold, the busiest pool or end; else not known, with what "
        "would settle it. docs/verdicts.md has a paragraph for each.",
    ),
    (
        "latency",
        "Of one batch. Closed loop: service time. With a rate: response time from the batch's intended "
        "send time; "
        "late sends are counted, never skipped.",
    ),
    (
        "stages",
        "Each worker's time without gaps. Those called await_... wait: for input, the socket, the HTTP/2 "
        "window, a reply, the schedule, a thread. verify is the instrument's own checksum.",
    ),
    (
        "verified",
        "checksum: an order-independent 64-bit sum over all values agreed at both ends. count: rows agreed. "
        "acknowledged: the server confirmed. A mismatch makes the trial a failure.",
    ),
    (
        "samples",
        "Counters of both ends every 100 ms, on the client's clock. Their cost, and that of reading the "
        "clock, is measured and printed.",
    ),
    ("CPU", "User and system time of the process of that end over the interval, in cores."),
)


def as_markdown() -> str:
    return "\n".join(f"- **{key}**: {text}" for key, text in NOTES)
