"""`venturi cluster`: Ray on several hosts, for `venturi run --on`."""

from __future__ import annotations

import ipaddress
import sys
from pathlib import Path
from typing import Annotated

import typer

from venturi.common.errors import ExitCode, StoreError, VenturiError
from venturi.common.texts import say
from venturi.common.units import plural

app = typer.Typer(
    rich_markup_mode=None,
    no_args_is_help=True,
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
Ssh = Annotated[
    str | None,
    typer.Option(
        "--ssh",
        help="Command that runs another on a host: it gets the host's name, then the words. "
        "[default: ssh -o BatchMode=yes]",
    ),
]
PythonOption = Annotated[
    str | None,
    typer.Option(
        "--python", help="The Python on every host that has Venturi and Ray. [default: the path of this one]"
    ),
]
Directory = Annotated[
    str | None,
    typer.Option(
        "--directory", help="Where nodes keep their files on each host. [default: /tmp/vt-cluster-UID]"
    ),
]
HostsOption = Annotated[
    str | None,
    typer.Option(
        "--hosts", help="The hosts, as a,b,c or @FILE. [default: those of the cluster started from here]"
    ),
]
Interface = Annotated[
    str | None,
    typer.Option("--interface", help="Network by which the hosts reach one another, as 10.0.0.0/24."),
]


@app.callback()
def cluster() -> None:
    """Start and end Ray on several hosts, for `venturi run --on`."""


@app.command(epilog=EXAMPLES)
def up(
    hosts: Annotated[
        str,
        typer.Option("--hosts", help="The hosts, as a,b,c or @FILE with one a line; the first has the head."),
    ],
    ssh: Ssh = None,
    python: PythonOption = None,
    interface: Interface = None,
    head: Annotated[
        str | None, typer.Option("--head", help="Address by which the others reach the first host.")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of Ray's head.")] = 6379,
    client_port: Annotated[
        int,
        typer.Option("--client-port", min=0, max=65535, help="Port for --on ray://HOST:PORT; 0 opens none."),
    ] = 10001,
    cpus: Annotated[
        int | None, typer.Option("--cpus", min=1, help="CPUs that Ray counts on each host. [default: all]")
    ] = None,
    resource: Annotated[
        list[str] | None,
        typer.Option(
            "--resource",
            help="HOST=NAME or HOST=NAME:COUNT: a resource of Ray's, for [hosts] to place by. Repeatable.",
        ),
    ] = None,
    token: Annotated[
        bool,
        typer.Option(
            "--token/--no-token",
            help="Demand a secret of whoever speaks to Ray; without one everybody who reaches it is obeyed.",
        ),
    ] = True,
    directory: Directory = None,
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
    hosts: HostsOption = None, ssh: Ssh = None, python: PythonOption = None, directory: Directory = None
) -> None:
    """End the nodes and remove what they left; well done too where there are none."""
    from venturi.cluster import hosts as nodes

    if hosts is None and nodes.kept() is None:
        print("no cluster was started from here")
        return
    reach, names, place = nodes.remote_of(hosts, ssh, python, _checked_directory(directory))
    ended, failed = nodes.down(reach, names, place)
    print(f"{plural(ended, 'node')} ended on {plural(len(names), 'host')}")
    nodes.raise_errors(failed)
    known = nodes.kept()
    if known is not None and set(known["hosts"]) <= set(names):
        nodes.forget()


@app.command()
def status(
    hosts: HostsOption = None, ssh: Ssh = None, python: PythonOption = None, directory: Directory = None
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
    run: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO [OPTIONS OF RUN]...",
            help="What `venturi run` is to do: all words from here on.",
        ),
    ],
    nodes: Annotated[int, typer.Option("--nodes", "-N", min=1, help="Nodes to ask for.")],
    print_: Annotated[
        bool, typer.Option("--print/--submit", help="Print the batch script instead of giving it to sbatch.")
    ] = False,
    name: Annotated[str, typer.Option("--name", help="Name of the job.")] = "venturi",
    time: Annotated[str | None, typer.Option("--time", help="Time limit, as sbatch has it.")] = None,
    partition: Annotated[str | None, typer.Option("--partition", "-p", help="Partition of nodes.")] = None,
    account: Annotated[str | None, typer.Option("--account", "-A", help="Account to charge.")] = None,
    sbatch: Annotated[
        list[str] | None,
        typer.Option("--sbatch", help="A further option of sbatch, as --constraint=haswell. Repeatable."),
    ] = None,
    exclusive: Annotated[
        bool, typer.Option("--exclusive/--share", help="Ask for whole nodes; others' jobs spoil figures.")
    ] = True,
    interface: Interface = None,
    python: Annotated[
        str | None, typer.Option("--python", help="Python of the nodes. [default: the path of this one]")
    ] = None,
) -> None:
    """Write a batch script that starts Ray on an allocation and runs a scenario there, and submit it."""
    from venturi.cluster import schedulers

    _check_interface(interface)
    if any(word == "--on" or word.startswith("--on=") for word in run):
        raise VenturiError("--on: the job's own nodes are meant; leave it out")
    asked = {"job-name": name, "time": time, "partition": partition, "account": account}
    options = [f"--{key}={value}" for key, value in asked.items() if value is not None]
    options += [*(["--exclusive"] if exclusive else []), *(sbatch or [])]
    text = schedulers.batch_script(run, nodes, python or sys.executable, options, interface)
    print(text if print_ else schedulers.submit(text), end="" if print_ else "\n")


@app.command(epilog=KUBERNETES_EXAMPLES)
def kubernetes(
    image: Annotated[str, typer.Option("--image", help="Image with Python and venturi[cluster].")],
    hosts: Annotated[
        int, typer.Option("--hosts", min=1, help="Pods for loaders and servers, one a node.")
    ] = 4,
    name: Annotated[str, typer.Option("--name", help="Name of the cluster.")] = "venturi",
    cpus: Annotated[str, typer.Option("--cpus", help="CPUs of a pod.")] = "4",
    memory: Annotated[str, typer.Option("--memory", help="Memory of a pod.")] = "8Gi",
    ray: Annotated[
        str | None, typer.Option("--ray", help="Ray's version in the image. [default: that of this machine]")
    ] = None,
    host_network: Annotated[
        bool, typer.Option("--host-network", help="Use the nodes' own network, without the pods' overlay.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="File to write. [default: standard output]")
    ] = None,
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
        return
    try:
        out.write_text(text)
    except OSError as error:
        raise StoreError(f"--out {out}: {error.strerror}") from None


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
        host, equals, rest = text.partition("=")
        name, colon, count = rest.partition(":")
        try:
            number = float(count) if colon else 1.0
        except ValueError:
            number = 0.0
        if not equals or not name or not number > 0:
            raise VenturiError(f"--resource {text}: must be written HOST=NAME or HOST=NAME:COUNT")
        if host not in hosts:
            raise VenturiError(f"--resource {text}: {host} is not one of --hosts")
        found.setdefault(host, {})[name] = number
    return found
