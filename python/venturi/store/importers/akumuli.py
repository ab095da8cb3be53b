"""Akumuli's published ingest results, a page of prose: what it states in numbers becomes a trial.

A row is a point, one value with its time. "Above 16 million elements/second" is a lower bound, and the note
of its trial says so.
"""

from __future__ import annotations

import re
from typing import Any

from venturi.store.importers.record import Draft, Parsed, contradiction, join_notes, malformed, real, whole

NAME = "akumuli"
ABOUT = "Akumuli's published benchmark: N data points in N series, N million elements/second"
_RATE = re.compile(
    r"[Ww]rite throughput was (above|around|about|over)? ?([\d.]+) million (?:elements|points)/second"
)
_SET = re.compile(r"([\d,]+) data points in ([\d,]+) series")
_TARGET = re.compile(r"a single (\S+) instance")
_EARLIER = re.compile(r"on the (\S+) EC2 instance")
_HOSTS = re.compile(r"(\d{1,4}) \S+ EC2 instances to generate load")
_THREADS = re.compile(r"\((\d{1,6}) threads total\)")
_CPU = re.compile(r"(\d{1,4})-core ([A-Z][\w\- ]{0,60}?\d\w{0,20}(?: v\d)?)(?= and|[,.])")
_LESS = re.compile(r"in less than (\d{1,4}) minutes")
_STORED = re.compile(r"database size was ([\d.]+) ?GB")
_DISK = re.compile(r"than ([\d.]+) ?MB/s that was demanded")


def detect(text: str) -> bool:
    return "kumuli" in text and bool(_RATE.search(text))


def parse(text: str, name: str) -> Parsed:
    flat = re.sub(r"\s", " ", text)
    # The page's head repeats its first sentences as a summary.
    flat = flat.split("--- ", 2)[-1] if flat.startswith("---") else flat
    rates = list(_RATE.finditer(flat))
    if not rates:
        raise malformed(name, None, "no rate", "write throughput was N million elements/second")
    data = _SET.search(flat)
    drafts = []
    machine: dict[str, Any] = {}
    for found in rates:
        value = real(found[2])
        if value is None or value <= 0:
            raise malformed(name, None, f"{found[0]!r}", "a number of million elements/second")
        at = text.count("\n", 0, max(text.find(found[0][:40]), 0)) + 1
        bound = f"published as {found[1]} {found[2]} million points/s" if found[1] else None
        draft = Draft("ingest", {"target": "akumuli"}, rates={"rows_per_second": value * 1e6}, line=at)
        if found is rates[-1] and data:
            machine = _main(flat, name, draft, data, bound)
        else:
            place = _EARLIER.search(flat[: found.start()])
            draft.parameters["place"] = place[1] if place else None
            draft.note = join_notes(bound, "an earlier run that the publication mentions")
        drafts.append(draft)
    return Parsed(drafts, "Akumuli's published ingest benchmark", server=machine)


def _main(flat: str, name: str, draft: Draft, data: re.Match[str], bound: str | None) -> dict[str, Any]:
    """Fills in the run that the page is about; answers what it says of the server."""
    points, series = whole(data[1]), whole(data[2])
    numbers = {
        "hosts": _HOSTS.search(flat),
        "streams": _THREADS.search(flat),
    }
    place = _TARGET.search(flat)
    draft.parameters |= {k: int(v[1]) for k, v in numbers.items() if v}
    draft.parameters |= {"place": place[1] if place else None, "series": series}
    if points is not None:
        draft.counts["rows"] = points
    notes = [bound, "a row is a point"]
    rate = draft.rates["rows_per_second"]
    if points and (less := _LESS.search(flat)):
        took = points / rate
        claim = f"{points:,} points at that rate take {took:.0f} s"
        if took >= int(less[1]) * 60:
            raise contradiction(name, draft.line, f"{claim}, not less than {less[1]} minutes")
        notes.append(f"{claim}, which fits 'less than {less[1]} minutes'")
    if points and (stored := _STORED.search(flat)) and (size := real(stored[1])):
        draft.figures["stored_bytes"] = size * 1e9
        per_second = size * 1e9 / (points / rate)
        disk = _DISK.search(flat)
        said = f" (published: {disk[1]} MB/s)" if disk else ""
        notes.append(
            f"{size:g} GB stored are {size * 1e9 / points:.2f} bytes a point, "
            f"{per_second / 1e6:.0f} MB/s to disk{said}"
        )
    draft.note = join_notes(*notes)
    machine: dict[str, Any] = {"host": place[1]} if place else {}
    if cpu := _CPU.search(flat):
        machine |= {"cpu": cpu[2].strip(), "cores": {"logical": int(cpu[1])}}
    return machine
