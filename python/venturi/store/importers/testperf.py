"""The line that Arrow Java's `TestPerf` prints for each of its runs.

`Transferred N records totaling B bytes at R MiB/s. R record/s. R batch/s.` (Arrow Java's
flight-core, TestPerf). Java formats numbers by the locale, so a decimal comma is read too.
"""

from __future__ import annotations

import re

from venturi.store.importers.record import MIB, Draft, Parsed, malformed, quoted, real, text_lines, whole

NAME = "testperf"
ABOUT = "the output of Arrow Java's TestPerf: Transferred N records totaling B bytes at R MiB/s. ..."
_START = "Transferred "
_NUMBER = r"(\d[\d.,\u00a0\u202f]*?)"
_LINE = re.compile(
    rf"Transferred {_NUMBER} records totaling {_NUMBER} bytes at {_NUMBER} MiB/s\."
    rf"(?: {_NUMBER} record/s\. {_NUMBER} batch/s\.)?"
)
_EXPECTED = "Transferred N records totaling B bytes at R MiB/s. R record/s. R batch/s."


def detect(text: str) -> bool:
    return "records totaling" in text and any(_LINE.search(line) for line in text_lines(text))


def _decimal(text: str) -> float | None:
    """%f has six decimals, so a lone comma before six digits is the decimal one."""
    return real(re.sub(r",(?=\d{6}$)", ".", text))


def parse(text: str, name: str) -> Parsed:
    drafts = []
    for at, line in enumerate(text_lines(text), 1):
        if "records totaling" not in line:
            continue
        found = _LINE.search(line)
        if not found:
            raise malformed(name, at, f"{quoted(line)} is cut short or changed", _EXPECTED)
        rows, payload, speed = whole(found[1]), whole(found[2]), _decimal(found[3])
        if rows is None or payload is None or not speed:
            raise malformed(name, at, f"not such numbers: {quoted(line)}", _EXPECTED)
        rates = {"bytes_per_second": speed * MIB}
        for group, rate in ((4, "rows_per_second"), (5, "batches_per_second")):
            if found[group] and (value := _decimal(found[group])) is not None:
                rates[rate] = value
        # The time is not printed; it is what makes the printed rate of the printed bytes.
        interval = round(payload / rates["bytes_per_second"] * 1e9)
        counts = {"rows": rows, "payload_bytes": payload}
        drafts.append(
            Draft(
                "get",
                {
                    "data": "records",
                    "row_bytes": payload / rows if rows else None,
                    "include_setup": True,
                    "protocol": "perf",
                },
                counts,
                {"interval_ns": interval} if 0 < interval < 10**18 else {},
                rates,
                line=at,
            )
        )
    return Parsed(drafts, "Arrow Java TestPerf")
