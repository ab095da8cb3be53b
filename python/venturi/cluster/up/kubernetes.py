"""`venturi cluster kubernetes`: a manifest for KubeRay, of a RayCluster with a loader a node."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from venturi.common.errors import VenturiError

__all__ = ["Pods", "manifest"]


@dataclass(frozen=True)
class Pods:
    """What is asked of Kubernetes."""

    image: str
    hosts: int
    ray: str
    name: str = "venturi"
    cpus: str = "4"
    memory: str = "8Gi"
    host_network: bool = False


_TEXT = """\
# By `venturi cluster kubernetes`, for KubeRay 1.6 or later (authOptions). The image needs Python with
# 'venturi[cluster]' and the Ray that is named below.
#   kubectl apply -f THIS_FILE
#   kubectl wait --for=condition=RayClusterProvisioned --timeout=10m raycluster/{name}
#   head=$(kubectl get pod -o name -l ray.io/cluster={name},ray.io/node-type=head)
#   kubectl exec -it "$head" -- venturi run SCENARIO --on auto --out /tmp/run
#   kubectl exec "$head" -- tar -C /tmp -cf - run | tar -xf -
#   kubectl delete -f THIS_FILE
apiVersion: v1
kind: ConfigMap
metadata:
  name: {name}-home
data:
  # Found in the home directory, it keeps Ray from asking the cloud's metadata service where it runs.
  ray_bootstrap_config.yaml: |
    provider:
      type: local
---
apiVersion: ray.io/v1
kind: RayCluster
metadata:
  name: {name}
spec:
  rayVersion: {ray}
  # A token in a Secret, made by the operator: without it everyone who reaches the head may run programs.
  authOptions:
    mode: token
  headGroupSpec:
    serviceType: ClusterIP
    rayStartParams:
      # The driver's place; no loader and no server is put there.
      num-cpus: "0"
      # The operator's probes ask it, inside the pod.
      dashboard-host: 127.0.0.1
      disable-usage-stats: "true"
      object-store-memory: "134217728"
    template:
      spec:{network}
        containers:
          - name: head
            image: {image}
            resources:
              requests: &head {{cpu: "2", memory: 4Gi}}
              limits: *head
            env:
{head_environment}
            volumeMounts: &home
              - name: home
                mountPath: /venturi-home
              - name: ray
                mountPath: /tmp/ray
        volumes: &volumes
          - name: home
            configMap:
              name: {name}-home
          - name: ray
            emptyDir: {{}}
  workerGroupSpecs:
    - groupName: hosts
      replicas: {hosts}
      minReplicas: {hosts}
      maxReplicas: {hosts}
      rayStartParams:
        object-store-memory: "134217728"
      template:
        metadata:
          labels:
            venturi: {name}
        spec:{deep_network}
          # One a node: two loaders on one network card would share what each is measured by.
          affinity:
            podAntiAffinity:
              requiredDuringSchedulingIgnoredDuringExecution:
                - topologyKey: kubernetes.io/hostname
                  labelSelector:
                    matchLabels:
                      venturi: {name}
          containers:
            - name: host
              image: {image}
              resources:
                # Requests that are the limits, in whole CPUs, so that the kubelet may give them to it alone.
                requests: &host {{cpu: {cpus}, memory: {memory}}}
                limits: *host
              env:
{host_environment}
              volumeMounts: *home
          volumes: *volumes
"""
_QUIET = {
    "HOME": "/venturi-home",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_USAGE_STATS_REPORT_URL": "http://127.0.0.1:9/",
    # The home directory is read-only here.
    "XDG_CACHE_HOME": "/tmp/venturi-cache",
    "XDG_STATE_HOME": "/tmp/venturi-state",
}
_HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "5000",
    "RAY_health_check_failure_threshold": "3",
}


def manifest(pods: Pods) -> str:
    """The manifest's text. Raises VenturiError for names that Kubernetes would refuse."""
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", pods.name):
        raise VenturiError(f"--name {pods.name}: must be lower-case letters, digits and -, at most 40")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*", pods.image):
        raise VenturiError(f"--image {pods.image}: is no image's name")
    if not re.fullmatch(r"\d+(\.\d+)?|\d+m", pods.cpus):
        raise VenturiError(f"--cpus {pods.cpus}: must be a number of CPUs, as 4")
    if not re.fullmatch(r"\d+([KMGT]i?)?", pods.memory):
        raise VenturiError(f"--memory {pods.memory}: must be a size as Kubernetes writes it, as 8Gi")

    def environment(values: dict[str, str], depth: int) -> str:
        pad = " " * depth
        return "\n".join(
            f"{pad}- name: {key}\n{pad}  value: {json.dumps(value)}" for key, value in values.items()
        )

    def network(depth: int) -> str:
        if not pods.host_network:
            return ""
        pad = "\n" + " " * depth
        # Names of services are looked up in the cluster all the same.
        return f"{pad}hostNetwork: true{pad}dnsPolicy: ClusterFirstWithHostNet"

    return _TEXT.format(
        name=pods.name,
        ray=json.dumps(pods.ray),
        image=json.dumps(pods.image),
        hosts=pods.hosts,
        cpus=json.dumps(pods.cpus),
        memory=json.dumps(pods.memory),
        head_environment=environment({**_QUIET, **_HEALTH}, 14),
        host_environment=environment(_QUIET, 16),
        network=network(8),
        deep_network=network(10),
    )
