"""From the lines of a run to its page: which verdicts were right, case by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench import Line, goals
from bench.page import Page
from bench.verdicts.stand import Case

LEAST_RIGHT = 0.95
MOST_WRONG = 1 / 400
HELD = 0.3
"""If other processes used this share of all CPUs, and the verdict says so, it is true of the machine, and
neither right nor wrong of the bottleneck."""
JUDGED = ("right", "unknown", "wrong", "machine")


def judged(line: Line) -> str:
    found = line["verdict"]
    blames = found["cause"] == "cores-of-others" or (found["kind"] == "cores" and found["others"] >= HELD)
    if found["judged"] == "wrong" and blames and line["others"] >= HELD:
        return "machine"
    return str(found["judged"])


def page(lines: Sequence[Line], cases: Sequence[Case]) -> Page:
    head = next(line for line in lines if line["kind"] == "environment")
    by_name = {case.name: case for case in cases}
    found = [line for line in lines if "verdict" in line and line["case"] in by_name]
    counts = Counter(map(judged, found))
    whole = sum(counts.values()) - counts["machine"]
    loads = sorted(line["load"] for line in found) or [0.0]
    others = sorted(line["others"] for line in found) or [0.0]
    missing = {line["case"]: line["missing"] for line in lines if "missing" in line}
    return Page(
        "Verdicts on bottlenecks made on purpose",
        "whether the reason that Venturi gives is the bottleneck that was made.",
        head,
        lines,
        [
            f"Load before a run {loads[len(loads) // 2]:.1f} (median), {loads[-1]:.1f} at most; others "
            f"used {others[len(others) // 2]:.0%} of the CPUs (median), {others[-1]:.0%} at most. Control "
            f"groups: {', '.join(f'{name} {what}' for name, what in head['cgroup'].items())}."
            + (f" Judged by {head['judged_by']}." if "judged_by" in head else ""),
            "",
            "| case | how it is made | truth | right | unknown | wrong | machine | verdicts |",
            "|---|---|---|---|---|---|---|---|",
            *_cases(found, cases),
            *_not_right(found),
        ],
        [
            *goals.share("verdicts that are right", counts["right"], whole, LEAST_RIGHT),
            *goals.share("verdicts that are wrong", counts["wrong"], whole, MOST_WRONG, most=True),
        ],
        f"{counts['right']} of {whole} verdicts are right, {counts['unknown']} say too little, "
        f"{counts['wrong']} are wrong; {counts['machine']} more are true of the machine.",
        f"{len({line['case'] for line in found})} bottlenecks, {len(found)} runs",
        [f"{line['case']}: {line['error'].splitlines()[0]}" for line in lines if "error" in line],
        [f"{name}: {why}" for name, why in missing.items()],
    )


def _what(line: Line) -> str:
    """The cause, and its place if there is one."""
    found = line["verdict"]
    place = ": ".join(filter(None, (found["end"], found["stage"])))
    also = f" and {found['also']['cause']}" if found["also"] else ""
    return f"`{found['cause']}`" + (f" ({place})" if place else "") + also


def _cases(found: Sequence[Line], cases: Sequence[Case]) -> list[str]:
    out = []
    for case in cases:
        own = [line for line in found if line["case"] == case.name]
        if own:
            counts = Counter(map(judged, own))
            verdicts = ", ".join(f"{what} {n}x" for what, n in Counter(map(_what, own)).most_common())
            figures = " | ".join(str(counts[name] or "") for name in JUDGED)
            out.append(f"| `{case.name}` | {case.how} | {case.truth} | {figures} | {verdicts} |")
    return out


def _not_right(found: Sequence[Line]) -> list[str]:
    """One sentence for each verdict that was not right."""
    out = {
        (line["case"], line["verdict"]["cause"]): f"- `{line['case']}`, {judged(line)}: "
        f"{line['verdict']['title']}: {line['verdict']['sentence']}"
        for line in reversed(found)
        if judged(line) != "right"
    }
    return ["", "## Not right", "", *reversed(out.values())] if out else []
