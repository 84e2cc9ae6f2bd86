"""Package metadata that depends on where the project is published.

The repository's address is known only where it is hosted: the release workflow sets MANTA_PROJECT_URL to it. With
it, the package names its home page, source, documentation and issues, and the README's relative links become
absolute, because a package index shows the README without the repository around it. Without it, such links
become plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE = re.compile(r"\[([^\]]+)\]\((?!https?://|#)([^)\s]+)\)")


def standalone(readme: str, url: str) -> str:
    """The README for readers who see only it."""
    replacement = rf"[\1]({url}/blob/main/\2)" if url else r"\1"
    return _RELATIVE.sub(replacement, readme)


def project_urls(url: str) -> dict[str, str]:
    return {
        "Homepage": url,
        "Source": url,
        "Documentation": f"{url}/tree/main/docs",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
        "Issues": f"{url}/issues",
    }


class Hook(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        url = os.environ.get("MANTA_PROJECT_URL", "").rstrip("/")
        text = standalone((Path(self.root) / "README.md").read_text(encoding="utf-8"), url)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = project_urls(url) if url else {}
