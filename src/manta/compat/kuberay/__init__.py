"""KubeRay's `python_client`: the same modules, classes and signatures.

Programs replace `python_client` by `manta.compat.kuberay` in their imports. As there, errors of the API
server are logged and become None or False. Unlike there, waits are watches, and the `kubernetes` package
is needed only by programs that use `core_v1_api` or `api` themselves.
"""

from manta.compat.kuberay.kuberay_cluster_api import RayClusterApi
from manta.compat.kuberay.kuberay_job_api import RayjobApi
from manta.compat.kuberay.utils.kuberay_cluster_builder import ClusterBuilder, Director
from manta.compat.kuberay.utils.kuberay_cluster_utils import ClusterUtils

__all__ = ["ClusterBuilder", "ClusterUtils", "Director", "RayClusterApi", "RayjobApi"]
