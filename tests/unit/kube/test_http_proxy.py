"""Which proxy, if any."""

from __future__ import annotations

import pytest

from manta.kube.errors import CredentialsError
from manta.kube.http_proxy import checked, proxy_for

PROXY = "http://proxy:3128"


def chosen(server: str, no_proxy: str = "") -> str:
    return proxy_for(server, {"HTTPS_PROXY": PROXY, "NO_PROXY": no_proxy})


def test_the_scheme_picks_the_variable_in_either_case() -> None:
    environment = {"https_proxy": "http://lower:1", "HTTP_PROXY": "http://plain:1"}
    assert proxy_for("https://api:6443", environment) == "http://lower:1"
    assert proxy_for("http://api:80", environment) == "http://plain:1"
    assert proxy_for("https://api:6443", {}) == ""


def test_a_proxy_without_a_scheme_speaks_http() -> None:
    assert proxy_for("https://api", {"HTTPS_PROXY": "proxy:3128"}) == PROXY


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "x.localhost"])
def test_this_machine_is_never_behind_a_proxy(host: str) -> None:
    assert chosen(f"https://{host}:6443") == ""


@pytest.mark.parametrize(
    ("rules", "exempt"),
    [
        ("*", True),
        ("api.example.com", True),
        ("example.com", True),
        (".example.com", True),
        ("API.Example.COM", True),
        ("other.com, example.com", True),
        ("api.example.com:6443", True),
        ("api.example.com:443", False),
        ("ample.com", False),
        ("pi.example.com", False),
        ("", False),
    ],
)
def test_names_in_no_proxy(rules: str, exempt: bool) -> None:
    assert (chosen("https://api.example.com:6443", rules) == "") is exempt


@pytest.mark.parametrize(
    ("rules", "exempt"),
    [("10.0.0.0/8", True), ("10.1.2.3", True), ("10.2.0.0/16", False), ("nonsense/8", False)],
)
def test_addresses_in_no_proxy(rules: str, exempt: bool) -> None:
    assert (chosen("https://10.1.2.3:6443", rules) == "") is exempt


@pytest.mark.parametrize("bad", ["socks5://proxy:1080", "http://", "ftp://x", "http://x:99999"])
def test_a_proxy_that_we_cannot_speak_to_is_refused_by_name(bad: str) -> None:
    with pytest.raises(CredentialsError, match="proxy-url of cluster 'c'"):
        checked(bad, "proxy-url of cluster 'c'")


def test_the_password_of_a_proxy_never_shows_in_an_error() -> None:
    with pytest.raises(CredentialsError, match=r"socks5://\.\.\.@proxy:1080") as caught:
        checked("socks5://me:secret@proxy:1080", "proxy-url")
    assert "secret" not in str(caught.value)
