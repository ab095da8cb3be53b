"""What a run has seen, as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import goals
import shared
from mutation import faults

LEAST_PROVED, LEAST_SEEN = 0.95, 1.0


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    known = {fault.name: fault for fault in faults.everything()}
    found = [line for line in lines if line["kind"] == "fault" and line["fault"] in known]
    whole = [line for line in found if not line.get("error")]
    proves = any("prove" in line for line in whole)
    proved = [line for line in whole if line.get("prove")]
    seen = [line for line in whole if line.get("prove") or line.get("tests")]
    # Where `prove` alone was asked for nobody knows of the rest.
    tested = any("tests" in line for line in whole)
    judged = []
    if whole and proves:
        judged.append(goals.exact("faults seen by `venturi prove`", len(proved) / len(whole), LEAST_PROVED))
    if whole and tested:
        judged.append(goals.exact("faults seen by it or by the tests", len(seen) / len(whole), LEAST_SEEN))
    failing = sorted({step for line in lines if line["kind"] == "baseline" for step in line["failing"]})
    text = [
        "# Seeded faults",
        "",
        f"{head['date']}; {shared.described(head)}; load before {head['load_before']:.2f}.",
        *([] if len(found) == len(known) else [f"Tried: {len(found)} of {len(known)} faults."]),
        *_score("`venturi prove` alone", proves, proved, whole),
        *_score("`prove` and the tests" if proves else "the tests alone", tested, seen, whole),
        *(f"Left out, for it fails without a fault here: `{step}`." for step in failing),
        "",
        "| area | faults | seen by prove | seen by the tests then | not seen |",
        "|---|---|---|---|---|",
    ]
    for area in dict.fromkeys(known[line["fault"]].area for line in found):
        own = [line for line in whole if known[line["fault"]].area == area]
        by_prove, by_tests = (sum(line in some for line in own) for some in (proved, _without(seen, proved)))
        told = (str(by_prove) if proves else "–", str(by_tests) if tested else "–")
        text.append(f"| {area} | {len(own)} | {' | '.join(told)} | {len(own) - by_prove - by_tests} |")
    missed = [line for line in whole if line not in proved] if proves else _without(whole, seen)
    if missed:
        text += ["", "## Not seen by prove" if proves else "## Not seen", ""]
        text += ["| fault | what it breaks | seen by | why not by prove |", "|---|---|---|---|"]
    for line in missed:
        fault = known[line["fault"]]
        noise = f"; could not be told here: {', '.join(untold)}" if (untold := line.get("untold")) else ""
        by = f"`{line['by']}`" if line.get("tests") else "**nobody**" if tested else "–"
        text.append(f"| {fault.name} | {fault.says} | {by} | {fault.unseen or '**it should**'}{noise} |")
    stale = [line["fault"] for line in proved if known[line["fault"]].unseen]
    if stale:
        text += ["", f"Seen by prove although it is said that they are not: {', '.join(stale)}."]
    failed = [f"{line['fault']}: {line['error']}" for line in found if line.get("error")]
    return shared.Told("\n".join(text), judged, failed)


def _score(who: str, asked: bool, some: Sequence[shared.Line], whole: Sequence[shared.Line]) -> list[str]:
    if not asked or not whole:
        return []
    return [f"Seen by {who}: {len(some)} of {len(whole)} ({len(some) / len(whole):.0%})."]


def _without(some: Sequence[shared.Line], others: Sequence[shared.Line]) -> list[shared.Line]:
    return [line for line in some if line not in others]
