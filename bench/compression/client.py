"""The client's end: reads a JSON object a line, measures what it asks for, and answers with one.

It runs in the client's network namespace, where the bench itself is not. `what` is `trial` (with the spec of
a trial), `link` (raw TCP to `target`) or `codec` (the spec of a probe of this host).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import core_trials


def trial(spec: dict[str, Any]) -> dict[str, Any]:
    record = core_trials.trial(**spec)
    counts, cpu = record["counts"], record["cpu"]
    ends = [cpu[end]["user_ns"] + cpu[end]["system_ns"] for end in ("client", "server")]
    return {
        "payload": counts["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        "cpu_ns": ends,
    }


def link(spec: dict[str, Any]) -> dict[str, Any]:
    found = core_trials.probe(spec["target"], "put", spec["streams"])
    return {"rate": found["bytes"] * 1e9 / found["interval_ns"]}


def codec(spec: dict[str, Any]) -> dict[str, Any]:
    found = core_trials.codec(**spec)
    rate = found["bytes"] * 1e9 / found["interval_ns"]
    return {"rate": rate, "ratio": found["bytes"] / found["encoded_bytes"]}


def main() -> None:
    measures = {"trial": trial, "link": link, "codec": codec}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = measures[asked.pop("what")](asked)
        except core_trials.TrialFailed as error:
            answer = {"error": str(error)}
        except Exception as error:  # one trial is lost, not all that follow
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
