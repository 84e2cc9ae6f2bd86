"""When storage that was deleted may go."""

from __future__ import annotations

import pytest

from manta.api.meta import ObjectMeta
from manta.api.resources import PERSISTENT_VOLUME_CLAIMS
from manta.api.well_known import FINALIZER_CLAIM_PROTECTION, FINALIZER_VOLUME_PROTECTION
from manta.localplane.builtin.storageprotection.plan import PERSISTENT_VOLUMES, Protected, plan
from manta.reconcile.actions import Patch


def meta(*finalizers: str, deleted: bool = True) -> ObjectMeta:
    stamp = "2026-01-01T00:00:00Z" if deleted else None
    return ObjectMeta(name="a", namespace="n", finalizers=finalizers, deletion_timestamp=stamp)


def test_the_finalizer_goes_when_nobody_needs_the_storage_and_others_stay() -> None:
    snapshot = Protected(
        PERSISTENT_VOLUME_CLAIMS, meta("x.y/z", FINALIZER_CLAIM_PROTECTION), in_use=False
    )
    [patch] = plan(snapshot).actions
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"finalizers": ["x.y/z"]}}
    volume = Protected(PERSISTENT_VOLUMES, meta(FINALIZER_VOLUME_PROTECTION), in_use=False)
    [patch] = plan(volume).actions
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"finalizers": None}}


@pytest.mark.parametrize(
    "snapshot",
    [
        Protected(PERSISTENT_VOLUME_CLAIMS, meta(FINALIZER_CLAIM_PROTECTION), in_use=True),
        Protected(
            PERSISTENT_VOLUME_CLAIMS, meta(FINALIZER_CLAIM_PROTECTION, deleted=False), in_use=False
        ),
        Protected(PERSISTENT_VOLUME_CLAIMS, meta("x.y/z"), in_use=False),
    ],
    ids=["in use", "not deleted", "released"],
)
def test_otherwise_nothing_is_done(snapshot: Protected) -> None:
    assert not plan(snapshot).actions
