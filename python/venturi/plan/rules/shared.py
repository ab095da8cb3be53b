"""Rules that several systems share."""

from __future__ import annotations

from typing import Any

from venturi.common.errors import ScenarioError
from venturi.plan.settings import Target
from venturi.plan.workload import INGEST, Workload
from venturi.targets.system import NETWORK, is_unix, scheme_of

__all__ = ["check_tls", "only_ingest"]


def check_tls(target: Target, where: Any) -> None:
    """Whether options of TLS go with an address that wants TLS: without it all would go in the clear."""
    scheme = scheme_of(target.url)
    if scheme not in NETWORK or target.url.startswith(f"{scheme}+tls:"):
        return
    for key in ("tls_insecure", "tls_ca", "tls_certificate", "tls_key", "tls_server_name"):
        if getattr(target, key):
            raise ScenarioError(
                f"{where('target', key)}: is for TLS, and {scheme}:// goes without it",
                hint="leave it out: a Unix socket has no TLS"
                if is_unix(target.url)
                else f"write {scheme}+tls://, or leave it out",
            )


def only_ingest(workload: Workload, where: Any) -> None:
    for key in INGEST:
        if getattr(workload, key) is not None:
            raise ScenarioError(
                f"{where('workload', key)}: is for ingests, and this is an {workload.operation}"
                if workload.operation == "upsert"
                else f"{where('workload', key)}: is for ingests, and this is a {workload.operation}"
            )
    if isinstance(workload.values, list):
        raise ScenarioError(
            f"{where('workload', 'values')}: {', '.join(workload.values)!r} is not one of random, sequential"
        )
