"""The CRDs of the four Ray kinds, for tests on the embedded server."""

from __future__ import annotations

from functools import cache

from manta.api.crds import crd_documents

ray_crds = cache(crd_documents)
