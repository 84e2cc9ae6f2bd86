"""Pack a directory as an image archive that `ctr images import` takes: one layer, one configuration.

    python pack.py ROOTFS OUT.tar NAME [-- COMMAND ...]

The user is uid 1000 of group 100, as in rayproject/ray, unless a command is given.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

SKIPPED = ("./proc/*", "./sys/*", "./dev/*")
OCI = "application/vnd.oci.image"


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def configuration(command: list[str]) -> dict[str, Any]:
    paths = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    if command:
        return {"Entrypoint": command}
    return {
        "User": "1000:100",
        "Env": [f"PATH={paths}", "HOME=/home/ray", "LANG=C.UTF-8"],
        "WorkingDir": "/home/ray",
    }


def blob(content: Any) -> tuple[str, bytes]:
    data = json.dumps(content).encode()
    return f"sha256:{hashlib.sha256(data).hexdigest()}", data


def pack(rootfs: Path, out: Path, name: str, command: list[str]) -> None:
    layer = out.with_suffix(".layer")
    excluded = [f"--exclude={one}" for one in SKIPPED]
    tar = ["tar", "-C", str(rootfs), "--numeric-owner", *excluded, "-cf", str(layer), "."]
    subprocess.run(tar, check=True)
    digest, size = digest_of(layer), layer.stat().st_size
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": configuration(command),
        "rootfs": {"type": "layers", "diff_ids": [digest]},
    }
    config_digest, config_data = blob(config)
    manifest_digest, manifest = blob(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": {
                "mediaType": f"{OCI}.config.v1+json",
                "digest": config_digest,
                "size": len(config_data),
            },
            "layers": [
                {"mediaType": f"{OCI}.layer.v1.tar", "digest": digest, "size": size},
            ],
        }
    )
    named = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    entry = {
        "mediaType": f"{OCI}.manifest.v1+json",
        "digest": manifest_digest,
        "size": len(manifest),
        "annotations": named,
    }
    index = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    with tarfile.open(out, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", index)
        _add(archive, _place(config_digest), config_data)
        _add(archive, _place(manifest_digest), manifest)
        archive.add(layer, _place(digest))
    layer.unlink()


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def main() -> None:
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    rootfs, out, name = words[:cut]
    pack(Path(rootfs), Path(out), name, words[cut + 1 :])


if __name__ == "__main__":
    main()
