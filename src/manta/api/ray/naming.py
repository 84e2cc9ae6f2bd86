"""How names are shortened. They must equal KubeRay's: an operator that takes over a cluster would otherwise
create its own objects."""

from __future__ import annotations

import unicodedata
from typing import Final

NAME_LENGTH: Final = 50
"""63 less the longest suffix: `-worker-` and five random characters."""
LABEL_LENGTH: Final = 63

MAX_RAY_CLUSTER_NAME: Final = 53
MAX_RAY_JOB_NAME: Final = 47
MAX_RAY_SERVICE_NAME: Final = 47
MAX_RAY_CRON_JOB_NAME: Final = 36


def check_name(text: str) -> str:
    """The name of a ServiceAccount, Role, Secret, Ingress or Route: the *last* 50 characters,
    with a leading digit or punctuation replaced by `r`."""
    return _start_with_letter(text[-NAME_LENGTH:], digits=True)


def check_label(text: str) -> str:
    """A label value: the *last* 63 characters; leading punctuation becomes `r`, a digit may stay."""
    return _start_with_letter(text[-LABEL_LENGTH:], digits=False)


def check_route_name(text: str, namespace: str) -> str:
    """The name of an OpenShift Route, whose host contains name and namespace."""
    return check_name(text[: max(51 - len(namespace), 0)])


def trim_job_name(text: str) -> str:
    """The name of a Job, shortened like a label value."""
    return check_label(text)


def pod_name_prefix(prefix: str, node_type: str) -> str:
    """The name before the suffix: the *first* 50 characters, then `-head-` or `-worker-`."""
    return f"{prefix[:NAME_LENGTH]}-{node_type}-".lower()


def fixed_pod_name(prefix: str, node_type: str, suffix: str) -> str:
    """The prefix and `-head`. A prefix that is shortened ends with `suffix`, so that long prefixes give
    different names."""
    if len(prefix) > NAME_LENGTH:
        prefix = f"{prefix[: NAME_LENGTH - len(suffix) - 1]}-{suffix}"
    return f"{prefix}-{node_type}".lower()


def _start_with_letter(text: str, *, digits: bool) -> str:
    first = text[:1]
    replace = unicodedata.category(first).startswith("P") if first else False
    if digits and first:
        replace = replace or first.isdecimal()
    return f"r{text[1:]}" if replace else text
