"""Which seeded faults does `venturi prove` see, and which do the tests?

Each fault of `faults/` is put into a copy of HEAD, which is built. Then `venturi prove` runs, if the fault is
meant for it, and if that sees nothing, the tests that belong to what was touched. A failure counts if it
comes twice. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import goals, shared
from bench.mutation import faults
from bench.mutation.faults import Fault, Step
from bench.mutation.tree import Broken, Ended, Tree
from bench.page import Page

PLACE = shared.ROOT / "target" / "bench-mutation"
BASELINES = 3
LEAST_PROVED, LEAST_SEEN = 0.95, 1.0


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "mutation", 1, "unused: a fault is tried once")
    add = parser.add_argument
    add("--only", nargs="+", metavar="NAME", help="faults whose names begin with one of these")
    add("--check", action="store_true", help="only whether the faults still fit the tree")
    add("--no-tests", action="store_true", help="`venturi prove` alone")
    add("--resume", type=Path, metavar="FILE", help="go on with the lines of an earlier run of this commit")
    options = parser.parse_args()
    if options.resume is not None:
        options.output = options.resume
    return options


def chosen(only: Sequence[str] | None) -> list[Fault]:
    """Raises Broken if there are none, or if some do not fit the tree."""
    found = [fault for fault in faults.everything() if only is None or fault.name.startswith(tuple(only))]
    if not found:
        raise Broken(f"no fault's name begins with {' or '.join(only or ())}")
    if stale := faults.misfits(found):
        raise Broken(f"{len(stale)} of {len(found)} faults do not fit the tree any more: {', '.join(stale)}")
    return found


def twice(run: Callable[[], Ended]) -> tuple[bool, Ended]:
    """Whether it fails, and fails again: once may be the machine's doing."""
    first = run()
    if first.good:
        return False, first
    again = run()
    return not again.good, again


def baseline(tree: Tree, found: Sequence[Fault], options: argparse.Namespace) -> set[Step]:
    """Without a fault, everything must pass: raises Broken if a self-test fails. Returns the steps of tests
    that fail, perhaps because a server is missing; their failures would prove nothing."""
    built = tree.build()
    if not built.good:
        raise Broken(f"the tree does not build:\n{built.output}")
    for target in dict.fromkeys(target for fault in found for target in faults.targets(fault)):
        for _ in range(BASELINES):
            proved = tree.prove(target)
            if not proved.good:
                wrong = ", ".join(proved.proofs("failed")) or proved.output
                raise Broken(f"`venturi prove {target}` fails without a fault: {wrong}")
    if options.no_tests:
        return set()
    wanted = dict.fromkeys(step for fault in found for step in faults.steps(fault))
    return {step for step in wanted if twice(lambda step=step: tree.step(step))[0]}


def one(tree: Tree, fault: Fault, failing: set[Step], options: argparse.Namespace) -> shared.Line:
    """Tries one fault. The tree is left without it."""
    line: shared.Line = {"kind": "fault", "fault": fault.name}
    tree.apply(fault)
    try:
        if fault.compiled:
            built = tree.build()
            if not built.good:
                return line | {"error": f"does not compile: {built.last}"}
        for target in faults.targets(fault):
            fails, proved = twice(lambda target=target: tree.prove(target))
            if fails:
                return line | {"prove": True, "proofs": proved.proofs("failed") or [proved.last[:200]]}
        if options.no_tests:
            return line
        line["tests"] = False
        for step in faults.steps(fault):
            if step not in failing and twice(lambda step=step: tree.step(step))[0]:
                return line | {"tests": True, "by": faults.spelled(step)}
        return line
    finally:
        tree.reset()


def measure(options: argparse.Namespace, output: Path) -> None:
    found = chosen(options.only)
    head, *lines = shared.lines(output) or [None]
    if head and head["commit"] != (commit := shared.machine()["commit"]):
        raise Broken(f"{output} is of commit {head['commit']}, this is {commit}")
    done = {line["fault"] for line in lines if line["kind"] == "fault"}
    tree = Tree(PLACE)
    with output.open("a", encoding="utf-8") as file:
        keep = shared.keeper(file)
        if head is None:
            keep(shared.machine())
        try:
            left = [fault for fault in found if fault.name not in done]
            failing = baseline(tree, left, options)
            keep({"kind": "baseline", "failing": sorted(map(faults.spelled, failing))})
            for number, fault in enumerate(left, 1):
                line = one(tree, fault, failing, options)
                keep(line)
                print(f"{number} of {len(left)}: {fault.name}: {outcome(line)}", file=sys.stderr, flush=True)
        finally:
            tree.close()


def outcome(line: shared.Line) -> str:
    if line.get("error"):
        return str(line["error"])
    if line.get("prove"):
        return f"seen by prove ({', '.join(line['proofs'])})"
    return f"seen by {line['by']}" if line.get("tests") else "NOT SEEN"


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text(encoding="utf-8").splitlines())
    known = {fault.name: fault for fault in faults.everything()}
    found = [line for line in lines if line["kind"] == "fault" and line["fault"] in known]
    whole = [line for line in found if not line.get("error")]
    proved = [line for line in whole if line.get("prove")]
    seen = [line for line in whole if line.get("prove") or line.get("tests")]
    judged = []
    meant = [line for line in whole if known[line["fault"]].unseen is None]
    if meant:
        share = sum(line in proved for line in meant) / len(meant)
        judged.append(goals.exact("faults meant for `venturi prove` that it sees", share, LEAST_PROVED))
    if any("tests" in line for line in whole):
        judged.append(goals.exact("faults seen by it or by the tests", len(seen) / len(whole), LEAST_SEEN))
    body = ["| fault | what it breaks | seen by | why not by prove |", "|---|---|---|---|"]
    for line in whole:
        fault = known[line["fault"]]
        reason = fault.unseen or ("" if line in proved else "**it should**")
        body.append(f"| {fault.name} | {fault.breaks} | {outcome(line)} | {reason} |")
    failing = sorted({step for line in lines if line["kind"] == "baseline" for step in line["failing"]})
    return Page(
        "Seeded faults",
        "whether `venturi prove`, and then the tests, see faults that were put into the code.",
        head,
        [],
        body,
        judged,
        f"Of {len(whole)} faults, {len(meant)} are meant for `venturi prove`, which sees {len(proved)}; "
        f"with the tests, {len(seen)} are seen.",
        f"{len(found)} of {len(known)} faults were tried",
        [f"{line['fault']}: {line['error']}" for line in found if line.get("error")],
        [f"`{step}`: it fails without a fault here" for step in failing],
    )


def main() -> int:
    options = arguments()
    try:
        if options.check:
            print(f"{len(chosen(options.only))} faults fit the tree")
            return 0
        return shared.run("mutation", options, measure, page)
    except (Broken, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; --resume FILE goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
