"""Checks the built documentation site: every local link and anchor has a target, and no page loads anything remote.

    python -m tools.docs.check_site

Prints the count of pages and links; exits with 1 and the list of what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[2] / ".cache" / "site" / "html"
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href"}
"""Tags that make a browser fetch something, and where they say what."""


class Page(HTMLParser):
    """The anchors of a page, its links, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {found for name in ("id", "name") if (found := values.get(name))}
        if tag == "a" and (target := values.get("href")):
            self.links.append(target)
        if (name := LOADS.get(tag)) and (target := values.get(name)):
            self.loads.append(target)


def problems(pages: dict[Path, Page]) -> Iterator[str]:
    for page in pages.values():
        for target in page.loads:
            if urlsplit(target).netloc:
                yield f"{page.path.relative_to(SITE)} loads {target}"
        for target in {*page.links, *page.loads}:
            if complaint := dead(page, target, pages):
                yield f"{page.path.relative_to(SITE)}: {complaint}"


def dead(page: Page, target: str, pages: dict[Path, Page]) -> str:
    """Why this link leads nowhere; empty when it leads somewhere, or to another host."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return ""
    file = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    file = file / "index.html" if file.is_dir() else file
    if not file.is_file():
        return f"no file for {target}"
    anchor = unquote(parts.fragment)
    if anchor and file in pages and anchor not in pages[file].anchors:
        return f"no anchor for {target}"
    return ""


def main() -> None:
    # 404.html is served for any path, so its links begin at the root of the site.
    found = (path for path in sorted(SITE.rglob("*.html")) if path.name != "404.html")
    pages = {path: Page(path) for path in found}
    wrong = sorted(problems(pages))
    print(f"{len(pages)} pages, {sum(len(one.links) for one in pages.values())} links in {SITE}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
