"""Pack layers as an image archive that `ctr images import` takes.

    python pack.py OUT.tar NAME CONFIGURATION LAYER.tar...

The configuration is the JSON of what a container is started with (User, Env, Entrypoint, ...).
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

OCI = "application/vnd.oci.image"
Json = dict[str, Any]


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def described(kind: str, digest: str, size: int) -> Json:
    return {"mediaType": f"{OCI}.{kind}", "digest": digest, "size": size}


class Archive:
    """An image layout in one tar file: blobs by their digest."""

    def __init__(self, file: tarfile.TarFile) -> None:
        self._file = file
        self.add("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')

    def add(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        self._file.addfile(entry, io.BytesIO(data))

    def layer(self, path: Path) -> Json:
        digest = digest_of(path)
        self._file.add(path, self._place(digest))
        return described("layer.v1.tar", digest, path.stat().st_size)

    def blob(self, kind: str, content: Json) -> Json:
        data = json.dumps(content).encode()
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        self.add(self._place(digest), data)
        return described(kind, digest, len(data))

    @staticmethod
    def _place(digest: str) -> str:
        return f"blobs/{digest.replace(':', '/')}"


def pack(out: Path, name: str, configuration: Json, layers: list[Path]) -> None:
    with tarfile.open(out, "w") as file:
        archive = Archive(file)
        packed = [archive.layer(path) for path in layers]
        roots = {"type": "layers", "diff_ids": [one["digest"] for one in packed]}
        image = {"architecture": "amd64", "os": "linux", "config": configuration, "rootfs": roots}
        config = archive.blob("config.v1+json", image)
        parts = {"schemaVersion": 2, "config": config, "layers": packed}
        manifest = archive.blob("manifest.v1+json", parts)
        names = {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name.rpartition(":")[2],
        }
        index = {"schemaVersion": 2, "manifests": [{**manifest, "annotations": names}]}
        archive.add("index.json", json.dumps(index).encode())


if __name__ == "__main__":
    out, name, configuration, *layers = sys.argv[1:]
    pack(Path(out), name, json.loads(configuration), [Path(one) for one in layers])
