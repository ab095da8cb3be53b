"""`venturi cluster slurm` and `venturi cluster kubernetes`: the text of a batch script that starts Ray on an
allocation and runs a scenario there, and of a manifest for KubeRay with one loader per node.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from venturi.common.credentials import INSTEAD, command_tells_secret
from venturi.common.errors import UnreachableError, VenturiError

_SUBMIT_SECONDS = 60
_FORMS = {
    "name": (r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", "must be lower-case letters, digits and -, at most 40"),
    "image": (r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", "is no image's name"),
    "cpus": (r"\d+(\.\d+)?|\d+m", "must be a number of CPUs, as 4"),
    "memory": (r"\d+([KMGT]i?)?", "must be a size as Kubernetes writes it, as 8Gi"),
}
"""What Kubernetes takes, and what is said of other texts."""


def batch_script(
    run: Sequence[str], nodes: int, python: str, options: Sequence[str] = (), interface: str | None = None
) -> str:
    """The text of a batch script. `run`: the words after `venturi run`; `options`: further ones of sbatch.
    Raises VenturiError if it would hold a secret, which it does not keep."""
    if command_tells_secret(run):
        raise VenturiError(
            "a password or a token stands in the words of the run, and would in the script",
            hint=f"name its variable: --password-env NAME, --token-env NAME; in a text {INSTEAD}",
        )
    for text in options:
        # A line of a comment: what comes after a line's end would be a command.
        if not re.fullmatch(r"--?[A-Za-z][^\n\r]*", text):
            raise VenturiError(f"--sbatch {text!r}: must be an option of sbatch, as --constraint=haswell")
    task = [python, "-m", "venturi.cluster.slurm_task"]
    task += ["--interface", interface] if interface is not None else []
    return "\n".join(
        [
            "#!/bin/bash",
            "# By `venturi cluster slurm`. To submit it: sbatch THIS_FILE",
            f"# Inside an allocation of {nodes} nodes (salloc --nodes={nodes}): bash THIS_FILE",
            f"#SBATCH --nodes={nodes}",
            "#SBATCH --ntasks-per-node=1",
            "#SBATCH --output=%x-%j.out",
            *(f"#SBATCH {text}" for text in options),
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
            f"srun --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --cpu-bind=none \\",
            "    --kill-on-bad-exit=1 --wait=60 \\",
            f'    {shlex.join([*task, "node"])} --first "$first" --head "$head" -- \\',
            f"    {shlex.join(run)}",
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
        raise UnreachableError(
            "sbatch: not found; is this a login node of a Slurm cluster?",
            hint="--print writes the script, to be submitted elsewhere",
        ) from None
    except subprocess.TimeoutExpired:
        raise UnreachableError(f"sbatch: no answer within {_SUBMIT_SECONDS} s") from None
    if done.returncode != 0:
        raise UnreachableError(f"sbatch: {' '.join(done.stderr.split())}")
    return done.stdout.strip()


def manifest(
    image: str,
    hosts: int,
    ray: str,
    name: str = "venturi",
    cpus: str = "4",
    memory: str = "8Gi",
    host_network: bool = False,
) -> str:
    """The text of a manifest. Raises VenturiError for names that Kubernetes would refuse."""
    texts = {"name": name, "image": image, "cpus": cpus, "memory": memory}
    for key, text in texts.items():
        form, complaint = _FORMS[key]
        if not re.fullmatch(form, text):
            raise VenturiError(f"--{key} {text}: {complaint}")

    def network(depth: int) -> str:
        if not host_network:
            return ""
        pad = "\n" + " " * depth
        # Names of services are still looked up in the cluster.
        return f"{pad}hostNetwork: true{pad}dnsPolicy: ClusterFirstWithHostNet"

    quoted = {key: json.dumps(text) for key, text in (texts | {"ray": ray}).items() if key != "name"}
    return (
        Path(__file__)
        .with_name("kuberay.yaml")
        .read_text()
        .format(name=name, hosts=hosts, network=network(8), deep_network=network(10), **quoted)
    )
