"""`venturi cluster`: Ray on several hosts, for `venturi run --on`."""

from __future__ import annotations

import contextlib
import ipaddress
import sys
from pathlib import Path

import typer

from venturi.cli.options import argument, flag, switch, write_text
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.texts import say
from venturi.common.units import plural

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
    add_completion=False,
    help="Start and end Ray on several hosts, for `venturi run --on`: by ssh, on Slurm, on Kubernetes.",
)

EXAMPLES = """\b
Examples:
  venturi cluster up --hosts a,b,c --interface 10.0.0.0/24
  venturi cluster up --hosts @hosts.txt --python /opt/venturi/bin/python --resource b=server
  venturi cluster status
  venturi cluster down
"""
SLURM_EXAMPLES = """\b
Examples:
  venturi cluster slurm -N 4 flight-remote --repeats 3
  venturi cluster slurm -N 4 --time 0:30:00 --partition short my.toml --out run-1
  venturi cluster slurm -N 4 --print flight-remote > job.sh
  salloc -N 4 bash job.sh
"""
KUBERNETES_EXAMPLES = """\b
Examples:
  venturi cluster kubernetes --image registry.example/venturi:1 --hosts 4 > cluster.yaml
  kubectl apply -f cluster.yaml
"""
SSH = flag(
    "Command that runs another on a host: it gets the host's name, then the words. "
    "[default: ssh -o BatchMode=yes]"
)
PYTHON = flag("The Python on every host that has Venturi and Ray. [default: the path of this one]")
DIRECTORY = flag("Where nodes keep their files on each host. [default: /tmp/vt-cluster-UID]")
HOSTS = flag("The hosts, as a,b,c or @FILE. [default: those of the cluster started from here]")
INTERFACE = flag("Network by which the hosts reach one another, as 10.0.0.0/24.")


@app.callback()
def cluster() -> None:
    """Start and end Ray on several hosts, for `venturi run --on`."""


@app.command(epilog=EXAMPLES)
def up(
    hosts: str = flag("The hosts, as a,b,c or @FILE with one a line; the first has the head.", ...),
    ssh: str | None = SSH,
    python: str | None = PYTHON,
    interface: str | None = INTERFACE,
    head: str | None = flag("Address by which the others reach the first host."),
    port: int = flag("Port of Ray's head.", 6379, min=1, max=65535),
    client_port: int = flag("Port for --on ray://HOST:PORT; 0 opens none.", 10001, min=0, max=65535),
    cpus: int | None = flag("CPUs that Ray counts on each host. [default: all]", min=1),
    resource: list[str] | None = flag(
        "HOST=NAME or HOST=NAME:COUNT: a resource of Ray's, for [hosts] to place by. Repeatable."
    ),
    token: bool = flag(
        "Demand a secret of whoever speaks to Ray; without one everybody who reaches it is obeyed.",
        True,
        "--token/--no-token",
    ),
    directory: str | None = DIRECTORY,
) -> None:
    """Start a Ray node on each host by ssh, and wait until all have joined."""
    from venturi.cluster import hosts as nodes

    names = nodes.listed(hosts)
    _check_interface(interface)
    if head is not None:
        try:
            ipaddress.ip_address(head)
        except ValueError:
            raise VenturiError(f"--head {head}: must be an address, as 10.0.0.1") from None
    if not token:
        say("warning", "without a token everyone who reaches the hosts' ports may run programs as you")
    plan = nodes.Plan(
        hosts=names,
        ssh=ssh or nodes.SSH,
        python=python or sys.executable,
        interface=interface,
        head_address=head,
        port=port,
        client_port=client_port or None,
        token=token,
        cpus=cpus,
        directory=_checked_directory(directory),
        resources=_resources(resource or [], names),
    )
    print(*nodes.up(plan, say), sep="\n")


@app.command()
def down(
    hosts: str | None = HOSTS,
    ssh: str | None = SSH,
    python: str | None = PYTHON,
    directory: str | None = DIRECTORY,
) -> None:
    """End the nodes and remove what they left; well done too where there are none."""
    from venturi.cluster import hosts as nodes

    if hosts is None and nodes.kept() is None:
        print("no cluster was started from here")
        return
    reach, names = nodes.remote_of(hosts, ssh, python, _checked_directory(directory))
    ended, failed = nodes.down(reach, names)
    print(f"{plural(ended, 'node')} ended on {plural(len(names), 'host')}")
    nodes.raise_errors(failed)
    record = nodes.kept()
    if record is not None and set(record["hosts"]) <= set(names):
        nodes.forget()


@app.command()
def status(
    hosts: str | None = HOSTS,
    ssh: str | None = SSH,
    python: str | None = PYTHON,
    directory: str | None = DIRECTORY,
) -> None:
    """Say of each host whether its node runs and has joined; exit code 4 unless all have."""
    from venturi.cluster import hosts as nodes

    lines = nodes.status(*nodes.remote_of(hosts, ssh, python, _checked_directory(directory)))
    names, addresses = (max(len(line[at]) for line in lines) for at in (0, 1))
    for host, address, text in lines:
        print(f"{host:<{names}}  {address:<{addresses}}  {text}")
    if not all(text.startswith("joined") for _, _, text in lines):
        raise typer.Exit(int(ExitCode.UNREACHABLE))


@app.command(
    epilog=SLURM_EXAMPLES,
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
    },
)
def slurm(
    run: list[str] = argument(
        "What `venturi run` is to do: all words from here on.", ..., metavar="SCENARIO [OPTIONS OF RUN]..."
    ),
    nodes: int = flag("Nodes to ask for.", ..., "--nodes", "-N", min=1),
    print_: bool = switch("Print the batch script instead of giving it to sbatch.", "--print/--submit"),
    name: str = flag("Name of the job.", "venturi"),
    time: str | None = flag("Time limit, as sbatch has it."),
    partition: str | None = flag("Partition of nodes.", None, "--partition", "-p"),
    account: str | None = flag("Account to charge.", None, "--account", "-A"),
    sbatch: list[str] | None = flag("A further option of sbatch, as --constraint=haswell. Repeatable."),
    exclusive: bool = flag("Ask for whole nodes; others' jobs spoil figures.", True, "--exclusive/--share"),
    interface: str | None = INTERFACE,
    python: str | None = PYTHON,
) -> None:
    """Write a batch script that starts Ray on an allocation and runs a scenario there, and submit it."""
    from venturi.cluster import schedulers

    _check_interface(interface)
    if any(word == "--on" or word.startswith("--on=") for word in run):
        raise VenturiError("--on: the job's own nodes are meant; leave it out")
    wanted = {"job-name": name, "time": time, "partition": partition, "account": account}
    options = [f"--{key}={value}" for key, value in wanted.items() if value is not None]
    options += [*(["--exclusive"] if exclusive else []), *(sbatch or [])]
    text = schedulers.batch_script(run, nodes, python or sys.executable, options, interface)
    print(text if print_ else schedulers.submit(text), end="" if print_ else "\n")


@app.command(epilog=KUBERNETES_EXAMPLES)
def kubernetes(
    image: str = flag("Image with Python and venturi[cluster].", ...),
    hosts: int = flag("Pods for loaders and servers, one a node.", 4, min=1),
    name: str = flag("Name of the cluster.", "venturi"),
    cpus: str = flag("CPUs of a pod.", "4"),
    memory: str = flag("Memory of a pod.", "8Gi"),
    ray: str | None = flag("Ray's version in the image. [default: that of this machine]"),
    host_network: bool = switch("Use the nodes' own network, without the pods' overlay.", "--host-network"),
    out: Path | None = flag("File to write. [default: standard output]"),
) -> None:
    """Print a manifest for KubeRay: a head for the driver, a pod a node for loaders and servers."""
    from venturi.cluster.hosts import own_versions
    from venturi.cluster.schedulers import manifest

    version = ray or own_versions()["ray"]
    if version is None:
        raise VenturiError("Ray is not installed here: say by --ray which version the image has")
    text = manifest(image, hosts, version, name, cpus, memory, host_network)
    if out is None:
        print(text, end="")
    else:
        write_text(out, text)


def _check_interface(text: str | None) -> None:
    if text is not None:
        try:
            ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise VenturiError(f"--interface {text}: must be a network, as 10.0.0.0/24") from None


def _checked_directory(text: str | None) -> str | None:
    if text is not None and not text.startswith("/"):
        raise VenturiError(f"--directory {text}: must be a whole path, for it is one of the hosts'")
    return text


def _resources(texts: list[str], hosts: list[str]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for text in texts:
        number = 0.0
        host, equals, rest = text.partition("=")
        name, colon, count = rest.partition(":")
        with contextlib.suppress(ValueError):
            number = float(count) if colon else 1.0
        if not equals or not name or not number > 0:
            raise VenturiError(f"--resource {text}: must be written HOST=NAME or HOST=NAME:COUNT")
        if host not in hosts:
            raise VenturiError(f"--resource {text}: {host} is not one of --hosts")
        found.setdefault(host, {})[name] = number
    return found
