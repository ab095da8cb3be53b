"""`venturi ceilings`, `links`, `doctor` and `prove`: what this machine and this instrument can do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from venturi.cli import options, output
from venturi.cli.options import argument, flag, switch
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say
from venturi.targets.parameters import CREDENTIALS

if TYPE_CHECKING:
    from venturi.common.links import Link
    from venturi.measure.limits import Ceilings
    from venturi.measure.links import Looked

app = typer.Typer(rich_markup_mode=None, add_completion=False)


CEILINGS = """\b
Examples:
  venturi ceilings
  venturi ceilings flight://host:31337 --streams 1,2,4,8
  venturi ceilings --only memory,codec --data rows.parquet --compression zstd:9
  venturi ceilings --only disk --disk /mnt/data --format json
"""


@app.command("ceilings", epilog=CEILINGS)
@options.settings("columns", "values", *CREDENTIALS)
def ceilings(
    url: str | None = argument(
        "A `venturi serve` on another host, to measure the way there as well.", metavar="URL"
    ),
    only: str | None = flag("Kinds: memory, tcp, unix, pipe, disk, cipher, codec, engine."),
    streams: str = flag("Numbers of connections, as 1,2,4 or 1..8.", "1,2,4"),
    message_bytes: str | None = flag("Payload of a batch, as 128Ki. [default: 128Ki]"),
    rows_per_batch: str | None = flag("The same as rows of the data."),
    data: str = flag("What codecs work on: records, builtin:birdstrikes, or a file.", "records"),
    compression: str | None = flag("A codec besides lz4 and zstd, as zstd:9."),
    disk: Path = flag("Directory whose disk is written to.", Path()),
    repeats: int = flag("Times each is measured.", 5, min=1, max=100),
    duration: str | None = flag("Time of one repeat. [default: 100ms to 300ms by kind]"),
    format: options.Format = options.FORMAT,
    quiet: bool = options.QUIET,
    executor: str = options.EXECUTOR,
    *,
    settings: dict[str, Any],
) -> None:
    """Measure the limits of transfers here, each by itself: memory, sockets, disk, codecs, Venturi."""
    flags = dict(locals()) | settings
    from venturi.cli.run import executed_by
    from venturi.measure import limits

    progress = _Progress(quiet)
    with executed_by(executor) as engine:
        found = limits.measure(flags, engine, _note(quiet), progress)
    progress.close()
    _print_limits(found, format, url)
    raise typer.Exit(int(found.exit_code))


def _note(quiet: bool) -> Callable[[str, str], None]:
    """Takes lines for the user; drops them if none are wanted."""
    return (lambda level, text: None) if quiet else say


class _Progress(output.LiveLine):
    """What is being measured, on standard error: one line in place, or one a limit."""

    def __init__(self, quiet: bool) -> None:
        super().__init__(not quiet)
        self._quiet = quiet
        self._printed: set[str] = set()

    def __call__(self, number: int, total: int, text: str) -> None:
        self.draw(f"{number} of {total}: {text}")
        if not (self.live or self._quiet or text in self._printed):
            self._printed.add(text)
            say("info", f"measuring {text}")


def _print_limits(measured: Ceilings, format: options.Format, url: str | None) -> None:
    from venturi.measure.trial_targets import start_a_server
    from venturi.report import limits as shown
    from venturi.targets.urls import check_url

    found, last = measured.limits, measured.narrowest
    options.print_answer(
        format,
        lambda: shown.document(found, last, measured.packings),
        lambda: shown.machine(found, last, measured.packings, measured.lines, measured.interrupted),
    )
    if measured.interrupted:
        say("warning", "interrupted; these are the limits measured until then" if found else "interrupted")
    for limit in found:
        if limit.error is not None:
            level = "error" if limit.fields["kind"] in ("tcp", "unix") else "warning"
            say(level, f"{limit.title}: {limit.error}")
    if measured.exit_code is ExitCode.UNREACHABLE and url is not None:
        say("hint", start_a_server(check_url(url)))
    elif measured.unsupported:
        start = "venturi serve flight --host 0.0.0.0 --port 31338"
        then = "there, then venturi ceilings flight://HOST:31338"
        say("hint", f"start one on that host, and name it: {start} {then}")


LINKS = """\b
Examples:
  venturi links
  venturi links "10gbit 5ms" lte "200mbit 30ms loss 0.1%"
  venturi links "100mbit 20ms" --server "iperf3 -s" --client "iperf3 -c {server}"
  venturi links satellite --client "ping -c 3 {server}"
"""
_REPEATS = 3


@app.command("links", epilog=LINKS)
def links(
    link: list[str] | None = argument(
        'Links to make and to look at: lte, "10gbit 5ms", ... [default: list those that have names]',
        metavar="LINK",
    ),
    client: str | None = flag(
        "Run this at the client's end of the one link; {server} stands for the other's address.",
        metavar="COMMAND",
    ),
    server: str | None = flag(
        "With --client: run this at the server's end before, until clients can connect.", metavar="COMMAND"
    ),
    cross: str | None = flag("With --client: share of the link that others use meanwhile, as 30%."),
    repeats: int | None = flag(f"Times that each link is looked at. [default: {_REPEATS}]", min=1, max=100),
    as_json: bool = switch("A JSON object, in base units.", "--json"),
    quiet: bool = options.QUIET,
) -> None:
    """List links that have a name; make links on this host and see whether they are what was asked for; run
    a program over one. Ends with 5 where a link is not as asked."""
    from venturi.common import runtime
    from venturi.measure import links as measure
    from venturi.report import limits as shown

    wanted = measure.named(link or [])
    if client is not None:
        for name, value in (("--repeats", repeats), ("--json", as_json)):
            if value:
                raise VenturiError(f"{name} does not go with --client")
        if len(wanted) != 1:
            raise VenturiError(
                f"--client goes over one link, and {len(wanted) or 'none'} of them were named",
                hint='as in venturi links "100mbit 20ms" --client "ping -c 3 {server}"',
            )
        (one,) = wanted.values()
        with runtime.interrupting():
            status = measure.program(one, _share(cross, one), server, client, _note(quiet))
        raise typer.Exit(status)
    if flags := [name for name, value in (("--server", server), ("--cross", cross)) if value is not None]:
        raise VenturiError(f"{flags[0]} goes with --client", hint="venturi links --help has an example")
    if not wanted:
        if as_json:
            options.print_json(shown.presets_machine())
        else:
            print("\n".join(shown.presets()))
        return
    _print_links(wanted, repeats or _REPEATS, as_json, quiet)


def _share(cross: str | None, link: Link) -> float | None:
    """In percent."""
    if cross is None:
        return None

    if link.rate is None:
        raise VenturiError(f"--cross is a share of a rate, and {link.text!r} has none")
    return 100 * options.share("--cross", cross)


def _print_links(wanted: dict[str, Link], repeats: int, as_json: bool, quiet: bool) -> None:
    from venturi.common import runtime
    from venturi.measure import links as measure
    from venturi.report import limits as shown

    found: list[Looked] = []
    interrupted = False
    progress = None if quiet else lambda name: say("info", f"making {name}")
    try:
        with runtime.interrupting():
            for one in measure.survey(wanted, repeats, progress):
                found.append(one)
                if not as_json:
                    options.print_document(shown.link_document(one))
    except KeyboardInterrupt:
        interrupted = True
    if as_json:
        options.print_json(shown.links_machine(found))
    if interrupted:
        say("warning", f"interrupted; looked at {len(found)} of {len(wanted)}")
        raise typer.Exit(int(ExitCode.INTERRUPTED))
    if wrong := [one.name for one in found if one.wrong is not None]:
        say("error", f"{len(wrong)} of {len(found)} links are not as asked: {', '.join(wrong)}")
        raise typer.Exit(int(ExitCode.TRIALS_FAILED))


@app.command("doctor")
def doctor(
    as_json: bool = switch("A JSON array of the findings.", "--json"),
) -> None:
    """Look for what would spoil a measurement here. Ends with 1 where something would."""
    from venturi.measure import doctor as measure

    findings = measure.doctor()
    if as_json:
        print(json.dumps([asdict(finding) for finding in findings], ensure_ascii=False))
    else:
        width = max(len(finding.check) for finding in findings)
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            print(f"{finding.state:<8} {finding.check:<{width}}  {finding.text}{advice}")
    raise typer.Exit(1 if any(finding.state == "warning" for finding in findings) else 0)


PROVE = """\b
Examples:
  venturi prove
  venturi prove charrow://local --only rate,lies
  venturi prove flight://192.0.2.7:31337 --format json
"""


@app.command("prove", epilog=PROVE)
@options.settings(*CREDENTIALS)
def prove(
    target: str = argument("A URL as for venturi run --target.", "flight://local", metavar="TARGET"),
    only: str | None = flag("Parts to make, with commas between them."),
    format: options.Format = options.FORMAT,
    quiet: bool = options.QUIET,
    *,
    settings: dict[str, Any],
) -> None:
    """Test this instrument, on this machine, now: it must find a known rate, injected faults, a known
    difference and known answers."""
    from venturi.measure.prove import prove as made
    from venturi.measure.prove.outcome import Outcome, Proof, ProofName, worst
    from venturi.report import proofs as words

    url = options.target(target)
    wanted = _proof_names(only, [name.value for name in ProofName])
    found: list[Proof] = []
    began = time.monotonic()
    table = format is options.Format.table
    for proof in made(url, settings, [ProofName(name) for name in wanted], _note(quiet)):
        found.append(proof)
        if table:
            print("\n".join(words.lines(proof)))
    seconds = time.monotonic() - began
    outcome = worst(proof.outcome for proof in found)
    if table:
        print(f"{words.verdict(found)}; {seconds:.1f} s")
    else:
        document = {"format": 1, "target": url, "outcome": outcome.value, "seconds": round(seconds, 3)}
        options.print_json(document | {"proofs": [proof.document() for proof in found]})
    raise typer.Exit(int(ExitCode.UNPROVEN if outcome is Outcome.FAILED else ExitCode.OK))


def _proof_names(only: str | None, names: list[str]) -> list[str]:
    if only is None:
        return names
    wanted = [name for text in only.split(",") if (name := text.strip())]
    for name in wanted:
        if name not in names:
            raise VenturiError(
                f"--only {name}: no such part of the self-test", hint=f"known: {', '.join(names)}"
            )
    if not wanted:
        raise VenturiError("--only: names nothing", hint=f"known: {', '.join(names)}")
    return wanted
