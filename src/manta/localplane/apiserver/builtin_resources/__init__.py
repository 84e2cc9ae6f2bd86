"""The built-in resources: each kind is registered once, with everything that the server knows about it.

A new kind is one entry here: its names, its subresources, the default roles that grant it, and a
BuiltinStrategy with its defaults, checks and table. Its fields come from `builtin_kinds/kinds.json`,
which already holds every kind of the API groups that tools/protobuf reads.
"""

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_resources.cluster import CLUSTER
from manta.localplane.apiserver.builtin_resources.core import CORE
from manta.localplane.apiserver.builtin_resources.security import SECURITY
from manta.localplane.apiserver.builtin_resources.workloads import WORKLOADS


def builtin_resources() -> tuple[ApiResource, ...]:
    return (*CORE, *WORKLOADS, *CLUSTER, *SECURITY)


__all__ = ["builtin_resources"]
