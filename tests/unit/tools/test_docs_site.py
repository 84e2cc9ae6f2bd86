"""`make docs-site`: links between pages, and the check of the built site."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.docs import check_site
from tools.docs.check_site import Page, problems
from tools.docs.site import places, relinked


def test_links_lead_to_the_place_of_a_page_on_the_site() -> None:
    known = places()
    readme, guide = Path("README.md"), Path("docs/guide/security.md")
    assert relinked("[a](docs/guide/security.md#x)", readme, known) == "[a](guide/security.md#x)"
    assert relinked("[a](../../SECURITY.md)", guide, known) == "[a](../security-policy.md)"
    assert relinked("[a](https://ray.io)", readme, known) == "[a](https://ray.io)"


def test_a_link_to_a_file_that_is_no_page_becomes_text() -> None:
    known = places()
    assert relinked("see [the chart](charts/manta/Chart.yaml)", Path("README.md"), known) == (
        "see the chart"
    )
    lost = "[a](docs/guide/nowhere.md)"  # mkdocs says so
    assert relinked(lost, Path("README.md"), known) == lost


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="b.html#there">', ""),
        ('<a href="b.html#not-there">', "a.html: no anchor for b.html#not-there"),
        ('<a href="c.html">', "a.html: no file for c.html"),
        ('<a href="https://ray.io">', ""),
        (
            '<script src="https://cdn.example/x.js"></script>',
            "a.html loads https://cdn.example/x.js",
        ),
        ('<link href="style.css">', "a.html: no file for style.css"),
    ],
)
def test_dead_links_and_remote_files_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, html: str, problem: str
) -> None:
    monkeypatch.setattr(check_site, "SITE", tmp_path)
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text('<p id="there">')
    pages = {path: Page(path) for path in tmp_path.iterdir()}
    assert list(problems(pages)) == ([problem] if problem else [])
