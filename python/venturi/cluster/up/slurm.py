"""`venturi cluster slurm`: a batch script that starts Ray on an allocation and runs a scenario on it."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from venturi.common.credentials import INSTEAD, command_tells_secret
from venturi.common.errors import ExitCode, VenturiError

__all__ = ["Job", "script", "submit"]

_SUBMIT_SECONDS = 60


@dataclass(frozen=True)
class Job:
    """What is asked of Slurm, and the words after `venturi run`."""

    nodes: int
    run: Sequence[str]
    python: str
    name: str = "venturi"
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    options: Sequence[str] = ()
    exclusive: bool = True
    interface: str | None = None


def script(job: Job) -> str:
    """The batch script's text. Raises VenturiError where it would hold a secret, which it does not keep."""
    if command_tells_secret(job.run):
        raise VenturiError(
            "a password or a token stands in the words of the run, and would in the script",
            hint=f"name its variable: --password-env NAME, --token-env NAME; in a text {INSTEAD}",
        )
    asked = [f"--job-name={job.name}", f"--nodes={job.nodes}", "--ntasks-per-node=1", "--output=%x-%j.out"]
    asked += ["--exclusive"] if job.exclusive else []
    for name in ("time", "partition", "account"):
        if (value := getattr(job, name)) is not None:
            asked.append(f"--{name}={value}")
    asked += job.options
    for text in asked:
        # A line of a comment: what comes after a line's end would be a command.
        if not re.fullmatch(r"--?[A-Za-z][^\n\r]*", text):
            raise VenturiError(f"--sbatch {text!r}: must be an option of sbatch, as --constraint=haswell")
    task = [job.python, "-m", "venturi.cluster.up.slurm_task"]
    task += ["--interface", job.interface] if job.interface is not None else []
    run = shlex.join(job.run)
    return "\n".join(
        [
            "#!/bin/bash",
            "# By `venturi cluster slurm`. To submit it: sbatch THIS_FILE",
            f"# Inside an allocation of {job.nodes} nodes (salloc --nodes={job.nodes}): bash THIS_FILE",
            *(f"#SBATCH {text}" for text in asked),
            "set -eu",
            'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            "# Whoever has this may run programs as you on these nodes: it stays in the job's environment.",
            "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN",
            "RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \\n')",
            "# By which address the first node is reached, which only that node can tell.",
            'head=$(srun --nodes=1 --ntasks=1 --nodelist="$first" \\',
            f"    {shlex.join([*task, 'address'])})",
            "# A task a node: the first one has Ray's head and runs the scenario, the others join, and wait",
            "# for its end. No binding to CPUs: the streams are to have the whole node.",
            f"srun --nodes={job.nodes} --ntasks={job.nodes} --ntasks-per-node=1 --cpu-bind=none \\",
            "    --kill-on-bad-exit=1 --wait=60 \\",
            f'    {shlex.join([*task, "node"])} --first "$first" --head "$head" -- \\',
            f"    {run}",
            "",
        ]
    )


def submit(text: str) -> str:
    """Gives the script to sbatch; what it says. Raises VenturiError."""
    try:
        done = subprocess.run(
            ["sbatch"], input=text, capture_output=True, text=True, timeout=_SUBMIT_SECONDS, check=False
        )
    except FileNotFoundError:
        raise VenturiError(
            "sbatch: not found; is this a login node of a Slurm cluster?",
            ExitCode.UNREACHABLE,
            hint="--print writes the script, to be submitted elsewhere",
        ) from None
    except subprocess.TimeoutExpired:
        raise VenturiError(f"sbatch: no answer within {_SUBMIT_SECONDS} s", ExitCode.UNREACHABLE) from None
    if done.returncode != 0:
        raise VenturiError(f"sbatch: {' '.join(done.stderr.split())}", ExitCode.UNREACHABLE)
    return done.stdout.strip()
