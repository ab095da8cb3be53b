"""Which seeded faults does `venturi prove` see, and which do the tests?

Each fault of `faults/` is put into a copy of HEAD, which is built; then `venturi prove` runs, and where that
sees nothing, the tests that belong to what was touched. A failure counts when it comes twice. See
bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import shared
from mutation import cargo_mutants, faults, steps
from mutation.faults import Fault
from mutation.steps import Step
from mutation.table import told
from mutation.tree import Broken, Ended, Tree, git, proofs, wrong_checks

PLACE = shared.ROOT / "target" / "bench-mutation"
BASELINES = 3


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", metavar="NAME", help="faults whose names begin with one of these")
    add("--no-prove", action="store_true", help="the tests alone")
    add("--no-tests", action="store_true", help="`venturi prove` alone")
    add("--all", action="store_true", help="the tests also of what `venturi prove` sees")
    add("--resume", type=Path, metavar="FILE", help="go on with the lines of an earlier run of this commit")
    add("--record", action="store_true", help="keep the table as bench/mutation/results/<date>.md")
    add("--output", type=Path, help="keep the lines of JSON here")
    add("--from", dest="source", type=Path, metavar="FILE", help="the table of an earlier run again")
    add(
        "--cargo-mutants",
        nargs=argparse.REMAINDER,
        metavar="WORD",
        help="cargo-mutants over what measures and verifies, by Rust's tests; words that follow are its own",
    )
    options = parser.parse_args()
    if options.no_prove and options.no_tests:
        parser.error("--no-prove and --no-tests leave nothing to run")
    if options.resume is not None:
        options.output = options.resume
    return options


def chosen(only: Sequence[str] | None) -> list[Fault]:
    found = [f for f in faults.everything() if only is None or f.name.startswith(tuple(only))]
    if not found:
        raise Broken(f"no fault's name begins with {' or '.join(only or ())}")
    return found


def twice(run: Callable[[], Ended]) -> tuple[bool, Ended]:
    """Whether it fails, and fails again: once may be the machine's doing."""
    first = run()
    if first.good:
        return False, first
    again = run()
    return not again.good, again


def done_before(output: Path) -> set[str]:
    """Faults that an earlier run of this commit has finished with."""
    if not output.exists():
        return set()
    head, *lines = map(json.loads, output.read_text(encoding="utf-8").splitlines())
    commit = shared.machine()["commit"]
    if head["commit"] != commit:
        raise Broken(f"{output} is of commit {head['commit']}, this is {commit}")
    return {line["fault"] for line in lines if line["kind"] == "fault"}


def baseline(
    tree: Tree, found: Sequence[Fault], options: argparse.Namespace, tell: Callable[[str], None]
) -> set[Step]:
    """Without a fault all must be well: raises Broken where it is not. The steps that are not, whose failures
    would tell nothing; the machine may lack a server."""
    built = tree.build()
    if not built.good:
        raise Broken(f"the tree does not build:\n{built.said}")
    tell(f"built in {built.seconds:.0f} s")
    if not options.no_prove:
        for target in dict.fromkeys(target for fault in found for target in steps.targets(fault.touched)):
            for _ in range(BASELINES):
                proved = tree.prove(target)
                if not proved.good:
                    wrong = "\n".join(wrong_checks(proved)) or proved.said
                    raise Broken(f"`venturi prove {target}` fails without a fault:\n{wrong}")
                untold = ", ".join(proofs(proved, "cannot-tell"))
                noisy = f"; cannot be told: {untold}" if untold else ""
                tell(f"venturi prove {target}: good in {proved.seconds:.1f} s{noisy}")
    if options.no_tests:
        return set()
    wanted = dict.fromkeys(step for fault in found for step in steps.of(fault.touched))
    failing = set()
    for step in wanted:
        fails, ended = twice(lambda step=step: tree.step(step))
        tell(
            f"{steps.spelled(step)}: {'FAILS without a fault' if fails else 'good'} in {ended.seconds:.0f} s"
        )
        if fails:
            failing.add(step)
    return failing


def one(tree: Tree, fault: Fault, failing: set[Step], options: argparse.Namespace) -> shared.Line:
    """What becomes of one fault. The tree is left without it."""
    line: shared.Line = {"kind": "fault", "fault": fault.name}
    tree.apply(fault)
    try:
        if fault.compiled:
            built = tree.build()
            line["build_s"] = round(built.seconds, 1)
            if not built.good:
                return line | {"error": f"does not compile: {built.last}"}
        if not options.no_prove:
            line |= {"prove": False, "proofs": [], "untold": []}
            for target in steps.targets(fault.touched):
                fails, proved = twice(lambda target=target: tree.prove(target))
                line["prove_s"] = round(line.get("prove_s", 0.0) + proved.seconds, 1)
                line["untold"] += proofs(proved, "cannot-tell")
                if fails:
                    line |= {"prove": True, "proofs": proofs(proved, "failed") or [proved.last[:200]]}
                    break
        if options.no_tests or (line.get("prove") and not options.all):
            return line
        line["tests"], spent = False, 0.0
        for step in steps.of(fault.touched):
            if step in failing:
                continue
            fails, ended = twice(lambda step=step: tree.step(step))
            spent += ended.seconds
            if fails:
                line |= {"tests": True, "by": steps.spelled(step), "tests_said": ended.said[-1000:]}
                break
        return line | {"tests_s": round(spent, 1)}
    finally:
        tree.reset()


def measure(options: argparse.Namespace, output: Path) -> None:
    found = chosen(options.only)
    before = done_before(output)
    print(f"lines: {output}", file=sys.stderr)
    if git("status", "--porcelain", "--untracked-files=no"):
        print("measured is HEAD: what is not committed is not in it", file=sys.stderr)
    tree = Tree(PLACE)
    with output.open("a", encoding="utf-8") as file:
        keep = shared.keeper(file)
        if not before:
            keep(shared.machine())

        def tell(text: str) -> None:
            print(text, file=sys.stderr, flush=True)

        try:
            left = [fault for fault in found if fault.name not in before]
            failing = baseline(tree, left, options, tell)
            keep({"kind": "baseline", "failing": sorted(map(steps.spelled, failing))})
            for number, fault in enumerate(left, 1):
                line = one(tree, fault, failing, options)
                keep(line)
                tell(f"{number} of {len(left)}: {fault.name}: {said(line)}")
        finally:
            tree.close()


def said(line: shared.Line) -> str:
    if line.get("error"):
        return str(line["error"])
    if line.get("prove"):
        return f"seen by prove ({', '.join(line['proofs'])})"
    return f"seen by {line['by']}" if line.get("tests") else "NOT SEEN"


def main() -> int:
    options = arguments()
    try:
        if options.cargo_mutants is not None:
            return cargo_mutants.run(options.cargo_mutants, PLACE)
        return shared.run("mutation", options, measure, told)
    except (Broken, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; --resume FILE goes on", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
