from __future__ import annotations

import os

import pytest

from manta.localplane.node.host.libc import mount_point


@pytest.mark.parametrize(
    "path",
    [b"/data", "/Übung".encode(), b"/with space", b"/tab\tline\nback\\slash", b"/not-utf8-\xff"],
)
def test_a_mount_point_is_read_as_the_kernel_writes_it(path: bytes) -> None:
    escaped = b"".join(b"\\%03o" % byte if byte in b" \t\n\\" else bytes([byte]) for byte in path)
    line = b"36 35 98:0 /mnt1 %s rw,noatime - ext3 /dev/root rw\n" % escaped
    assert os.fsencode(mount_point(line)) == path
