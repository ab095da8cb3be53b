"""The confusion matrix of verdicts, from the lines of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scipy.stats import binomtest
from stand import Case

import goals
import shared

Line = shared.Line
LEAST_RIGHT = 0.95
MOST_WRONG = 1 / 400
HELD = 0.3
"""Share of all CPUs that other processes used, and that the verdict says they used: then a verdict that the
CPUs are full tells of the machine, and is neither right nor wrong of the bottleneck."""
JUDGED = ("right", "unknown", "wrong", "machine")


def judged(line: Line) -> str:
    found = line["verdict"]
    told = found["cause"] == "cores-of-others" or (found["kind"] == "cores" and found["others"] >= HELD)
    if found["judged"] == "wrong" and told and line["others"] >= HELD:
        return "machine"
    return str(found["judged"])


def table(lines: Sequence[Line], cases: Sequence[Case]) -> shared.Told:
    head = next(line for line in lines if line["kind"] == "environment")
    found = [line for line in lines if line["kind"] == "verdict" and "verdict" in line]
    by_name = {case.name: case for case in cases}
    found = [line for line in found if line["case"] in by_name]
    counts = Counter(judged(line) for line in found)
    whole = sum(counts.values()) - counts["machine"]
    missing = {line["case"]: line["missing"] for line in lines if "missing" in line}
    loads = sorted(line["load"] for line in found) or [0.0]
    others = sorted(line["others"] for line in found) or [0.0]
    out = [
        "# Verdicts on bottlenecks made to measure",
        "",
        f"{head['date']}; {shared.described(head)}"
        + (f"; judged by {head['judged_by']}" if "judged_by" in head else "")
        + f". Load before a run {loads[len(loads) // 2]:.1f} (median), {loads[-1]:.1f} at most; processes"
        f" that are not part of a run used {others[len(others) // 2]:.0%} of the CPUs (median),"
        f" {others[-1]:.0%} at most.",
        "Control groups: " + ", ".join(f"{name} {what}" for name, what in head["cgroup"].items()) + ".",
        "",
        f"{len({line['case'] for line in found})} bottlenecks, {len(found)} runs.",
        "",
        "| | runs | share | 95 % (Wilson) |",
        "|---|---|---|---|",
    ]
    out += [f"| {name} | {counts[name]} | {_share(counts[name], whole)} |" for name in JUDGED[:3]]
    if counts["machine"]:
        out += [
            "",
            f"{counts['machine']} more runs said that others hold the CPUs, and they did (over {HELD:.0%} of"
            " them): true of the machine, and neither right nor wrong of the bottleneck.",
        ]
    out += ["", *_matrix(found, by_name), "", *_cases(found, by_name), "", *_sentences(found)]
    reached = goals.share("verdicts that are right", counts["right"], whole, LEAST_RIGHT)
    reached += goals.share("verdicts that are wrong", counts["wrong"], whole, MOST_WRONG, most=True)
    failed = [f"{line['case']}: {line['error'].splitlines()[0]}" for line in lines if "error" in line]
    return shared.Told("\n".join(out), reached, failed, [f"{name}: {why}" for name, why in missing.items()])


def _share(count: int, whole: int) -> str:
    if not whole:
        return "- | -"
    interval = binomtest(count, whole).proportion_ci(0.95, method="wilson")
    return f"{count / whole:.1%} | {interval.low:.1%}..{interval.high:.1%}"


def _what(line: Line) -> str:
    """As the matrix has it: the cause, and the place where there is one."""
    found = line["verdict"]
    place = ": ".join(filter(None, (found["end"], found["stage"])))
    also = f" and {found['also']['cause']}" if found["also"] else ""
    return found["cause"] + (f" ({place})" if place else "") + also


def _matrix(found: Sequence[Line], cases: dict[str, Case]) -> list[str]:
    """Rows are truths, columns causes."""
    causes = [c for c, _ in Counter(line["verdict"]["cause"] for line in found).most_common()]
    truths = list(dict.fromkeys(case.truth for case in cases.values()))
    cells = Counter((cases[line["case"]].truth, line["verdict"]["cause"]) for line in found)
    out = [
        "## Truth (rows) and what was said (columns)",
        "",
        "| truth | " + " | ".join(f"`{c}`" for c in causes) + " |",
        "|---" * (len(causes) + 1) + "|",
    ]
    for truth in truths:
        row = [cells[truth, cause] for cause in causes]
        if any(row):
            out.append(f"| {truth} | " + " | ".join(str(n or "") for n in row) + " |")
    return out


def _cases(found: Sequence[Line], cases: dict[str, Case]) -> list[str]:
    out = [
        "## Cases",
        "",
        "| case | how it is made | truth | right | unknown | wrong | machine | what was said |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for case in cases.values():
        own = [line for line in found if line["case"] == case.name]
        if own:
            counts = Counter(map(judged, own))
            told = ", ".join(f"{what} {n}x" for what, n in Counter(map(_what, own)).most_common())
            figures = " | ".join(str(counts[name] or "") for name in JUDGED)
            out.append(f"| `{case.name}` | {case.how} | {case.truth} | {figures} | {told} |")
    return out


def _sentences(found: Sequence[Line]) -> list[str]:
    """Of everything that was not right one sentence each, as it was said."""
    out, told = ["## Not right", ""], set()
    for line in found:
        how = judged(line)
        if how != "right" and (line["case"], line["verdict"]["cause"]) not in told:
            told.add((line["case"], line["verdict"]["cause"]))
            out.append(
                f"- `{line['case']}`, {how}: {line['verdict']['title']}: {line['verdict']['sentence']}"
            )
    return out if told else []
