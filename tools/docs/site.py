"""Gathers the pages of the documentation site into .cache/site/pages, for mkdocs to build.

    python -m tools.docs.site

Pages that lie outside docs/ get a place on the site, and the links between all of them are rewritten. A link to a
file that is no page of the site becomes plain text: nobody knows where the repository is published.
"""

from __future__ import annotations

import os
import re
import shutil
from importlib.resources import files
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ROOT / ".cache" / "site" / "pages"
ASSETS = Path(__file__).with_name("assets")
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "charts/manta/README.md": "chart.md",
    "charts/ray-cluster/README.md": "chart-ray-cluster.md",
    "charts/ray-service/README.md": "chart-ray-service.md",
    "charts/ray-job/README.md": "chart-ray-job.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def places() -> dict[Path, Path]:
    """The place of each page on the site, by its place in the repository; both are relative."""
    inside = {
        path.relative_to(ROOT): path.relative_to(ROOT / "docs")
        for path in sorted((ROOT / "docs").rglob("*.md"))
    }
    return {**{Path(one): Path(place) for one, place in OUTSIDE.items()}, **inside}


def relinked(text: str, source: Path, known: dict[Path, Path]) -> str:
    """The page with the links of its place on the site."""
    here = known[source].parent

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        file = Path(os.path.normpath(source.parent / target))
        if file in known:
            return f"[{words}]({os.path.relpath(known[file], here)}{anchor})"
        return words if (ROOT / file).exists() else found[0]

    return _LINK.sub(link, text)


def gather(pages: Path = PAGES) -> None:
    shutil.rmtree(pages, ignore_errors=True)
    known = places()
    for source, place in known.items():
        (pages / place).parent.mkdir(parents=True, exist_ok=True)
        (pages / place).write_text(relinked((ROOT / source).read_text(), source, known))
    shutil.copy(ASSETS / "python.md", pages / "reference" / "python.md")
    assets = pages / "assets"
    assets.mkdir()
    shutil.copy(ASSETS / "site.css", assets)
    (assets / "mermaid.js").write_bytes(
        files("mermaidx").joinpath("assets/mermaid.js").read_bytes()
    )


if __name__ == "__main__":
    gather()
