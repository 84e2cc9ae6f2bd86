"""HttpTransport on real sockets and real TLS, against a scripted server."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.kube.cluster import Cluster, User
from manta.kube.connect import connect
from manta.kube.errors import Unauthorized, Unreachable
from manta.kube.retry import RetryPolicy
from manta.kube.transport import HttpTransport, Request
from support.certificates import Authority, Pair
from support.http_fixtures import CHUNKED, Asked, WireServer, chunk, http

CA = Authority()
SERVER = CA.issue("server", "127.0.0.1")
ELSEWHERE = CA.issue("server", "kubernetes.example")


def server_tls(tmp_path: Path, pair: Pair = SERVER, *, ask: bool = False) -> ssl.SSLContext:
    (tmp_path / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    if ask:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=CA.pem.decode())
    return context


async def fine(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(http())


@asynccontextmanager
async def transport_to(server: WireServer, **fields: Any) -> AsyncIterator[HttpTransport]:
    fields.setdefault("ca", CA.pem if server.url.startswith("https") else None)
    transport = HttpTransport(Cluster(server.url, origin="cluster 'c'", **fields))
    try:
        yield transport
    finally:
        await transport.close()


# ── ordinary traffic ─────────────────────────────────────────────────────────────────────────
async def test_a_request_arrives_as_it_was_meant(tmp_path: Path) -> None:
    async with (
        WireServer(fine, server_tls(tmp_path)) as server,
        transport_to(server, user=User(token="t")) as transport,
    ):
        request = Request(
            "POST",
            "/api/v1/x%20y",
            (("labelSelector", "a in (b,c)"), ("q", "ü")),
            {"content-type": "application/json", "user-agent": "manta/1"},
            b'{"a":1}',
        )
        response = await transport.send(request)
    assert (response.status, response.body) == (200, b"{}")
    [asked] = server.asked
    assert asked.target == "/api/v1/x%20y?labelSelector=a+in+%28b%2Cc%29&q=%C3%BC"
    assert (asked.method, asked.body) == ("POST", b'{"a":1}')
    assert asked.headers["authorization"] == "Bearer t"
    assert asked.headers["content-type"] == "application/json"
    assert asked.headers["accept-encoding"] == "identity"


async def test_connections_are_kept_and_never_more_than_the_limit(tmp_path: Path) -> None:
    async with WireServer(fine, server_tls(tmp_path)) as server:
        client = await connect(Cluster(server.url, ca=CA.pem), connections=3)
        await asyncio.gather(*(client.send("GET", "/x") for _ in range(30)))
        await client.close()
    assert len(server.asked) == 30
    assert server.connections <= 3


async def test_a_watch_takes_no_place_in_the_pool(tmp_path: Path) -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED if "watch" in asked.target else http())

    async with WireServer(answering, server_tls(tmp_path)) as server:
        client = await connect(Cluster(server.url, ca=CA.pem), connections=1)
        async with (
            client.transport.stream(Request("GET", "/watch")),
            client.transport.stream(Request("GET", "/watch")),
        ):
            assert (await client.send("GET", "/x")).status == 200
        await client.close()


async def test_a_path_of_the_server_stands_before_every_request() -> None:
    async with WireServer(fine) as server:
        client = await connect(Cluster(f"{server.url}/clusters/c1"))
        await client.send("GET", "/version")
        await client.close()
    assert server.asked[0].target == "/clusters/c1/version"


async def test_redirects_are_not_followed_with_our_token() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(http(302, b"", Location="http://127.0.0.1:1/steal"))

    async with WireServer(answering) as server, transport_to(server) as transport:
        assert (await transport.send(Request("GET", "/"))).status == 302


# ── who is who ───────────────────────────────────────────────────────────────────────────────
async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    me = CA.issue("me")
    async with (
        WireServer(fine, server_tls(tmp_path, ask=True)) as server,
        transport_to(server, user=User(certificate=me.certificate, key=me.key)) as transport,
    ):
        await transport.send(Request("GET", "/"))
    assert server.asked[0].peer == "me"


async def test_a_renewed_certificate_file_is_shown_after_a_401(tmp_path: Path) -> None:
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"

    def lay(pair: Pair) -> None:
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.peer == "old":
            lay(CA.issue("new"))
        writer.write(http(401 if asked.peer == "old" else 200))

    lay(CA.issue("old"))
    async with (
        WireServer(answering, server_tls(tmp_path, ask=True)) as server,
        transport_to(server, user=User(certificate=certificate, key=key)) as transport,
    ):
        assert (await transport.send(Request("GET", "/"))).status == 200
    assert [asked.peer for asked in server.asked] == ["old", "new"]


async def test_an_unknown_authority_is_named_and_nothing_is_sent(tmp_path: Path) -> None:
    async with (
        WireServer(fine, server_tls(tmp_path)) as server,
        transport_to(server, ca=Authority("other").pem) as transport,
    ):
        with pytest.raises(Unreachable, match=r"not trusted.*certificate-authority.*'c'") as caught:
            await transport.send(Request("POST", "/"))
    assert not caught.value.sent
    assert server.asked == []


async def test_a_renewed_authority_file_is_read_again(tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_bytes(Authority("old").pem)
    async with (
        WireServer(fine, server_tls(tmp_path)) as server,
        transport_to(server, ca=ca) as transport,
    ):
        with pytest.raises(Unreachable):
            await transport.send(Request("GET", "/"))
        ca.write_bytes(CA.pem)
        assert (await transport.send(Request("GET", "/"))).status == 200


async def test_a_certificate_for_another_name_needs_tls_server_name(tmp_path: Path) -> None:
    async with WireServer(fine, server_tls(tmp_path, ELSEWHERE)) as server:
        async with transport_to(server) as transport:
            with pytest.raises(Unreachable, match="tls-server-name"):
                await transport.send(Request("GET", "/"))
        async with transport_to(server, server_name="kubernetes.example") as transport:
            assert (await transport.send(Request("GET", "/"))).status == 200


async def test_an_insecure_cluster_trusts_anyone(tmp_path: Path) -> None:
    async with (
        WireServer(fine, server_tls(tmp_path, ELSEWHERE)) as server,
        transport_to(server, ca=None, insecure=True) as transport,
    ):
        assert (await transport.send(Request("GET", "/"))).status == 200


# ── 401 ──────────────────────────────────────────────────────────────────────────────────────
def guarded(password: str):
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        welcome = asked.headers.get("authorization") == f"Bearer {password}"
        if "watch" in asked.target and welcome:
            writer.write(CHUNKED + chunk(b"x") + chunk(b""))
        else:
            writer.write(http(200 if welcome else 401))

    return answering


async def test_a_401_reads_the_token_file_again_even_for_a_write(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with (
        WireServer(guarded("new")) as server,
        transport_to(server, user=User(token_file=token)) as transport,
    ):
        await transport.send(Request("GET", "/"))
        token.write_text("new")
        assert (await transport.send(Request("POST", "/", body=b"x"))).status == 200
    assert [asked.body for asked in server.asked] == [b"", b"x", b"x"]


async def test_a_401_at_the_start_of_a_stream_is_cured_too(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with (
        WireServer(guarded("new")) as server,
        transport_to(server, user=User(token_file=token)) as transport,
    ):
        await transport.send(Request("GET", "/"))
        token.write_text("new")
        async with transport.stream(Request("GET", "/watch")) as stream:
            assert [data async for data in stream.chunks()] == [b"x"]


async def test_a_lasting_401_says_whose_token_it_was() -> None:
    async with WireServer(guarded("other")) as server:
        user = User("user 'me' in /k", token="t")
        client = await connect(Cluster(server.url, user))
        with pytest.raises(Unauthorized, match="the token of user 'me' in /k was refused"):
            await client.get(PODS, Key("ns", "a"))
        with pytest.raises(Unauthorized, match="the token of user 'me' in /k was refused"):
            [event async for event in client.watch(PODS)]
        await client.close()
    assert len(server.asked) == 2


# ── losses ───────────────────────────────────────────────────────────────────────────────────
async def test_a_refused_connection_was_surely_not_sent() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        transport = HttpTransport(Cluster(f"http://127.0.0.1:{unused.getsockname()[1]}"))
        with pytest.raises(Unreachable, match=r"no answer from http://127\.0\.0\.1") as caught:
            await transport.send(Request("POST", "/"))
        await transport.close()
    assert not caught.value.sent


async def test_a_name_that_does_not_resolve_was_surely_not_sent() -> None:
    transport = HttpTransport(Cluster("https://no-such-host.invalid"))
    with pytest.raises(Unreachable) as caught:
        await transport.send(Request("POST", "/"))
    await transport.close()
    assert not caught.value.sent


async def hang_up(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def half_an_answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(http(body=b"x" * 100)[:-50])
    writer.close()


async def nonsense(asked: Asked, writer: asyncio.StreamWriter) -> None:
    writer.write(b"not http at all\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("answering", [hang_up, half_an_answer, nonsense])
async def test_a_lost_reply_is_unknown(answering, tmp_path: Path) -> None:
    async with (
        WireServer(answering, server_tls(tmp_path)) as server,
        transport_to(server) as transport,
    ):
        with pytest.raises(Unreachable) as caught:
            await transport.send(Request("POST", "/", body=b"x"))
    assert caught.value.sent
    assert len(server.asked) == 1


async def test_no_answer_in_time_is_unknown() -> None:
    async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with WireServer(silent) as server, transport_to(server) as transport:
        with pytest.raises(Unreachable) as caught:
            await transport.send(Request("POST", "/", timeout=0.5))
        with pytest.raises(Unreachable):
            await transport.stream(Request("GET", "/watch", timeout=0.5)).__aenter__()
    assert caught.value.sent


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "POST"])
async def test_a_write_lost_on_a_kept_connection_is_sent_once(method: str) -> None:
    """aiohttp would repeat PUT and DELETE by itself; the server may have done the first."""

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method == "GET":
            writer.write(http())
        else:
            writer.close()

    async with WireServer(answering) as server:
        client = Client(HttpTransport(Cluster(server.url)))
        await client.send("GET", "/")
        with pytest.raises(Unreachable) as caught:
            await client.send(method, "/", body=b"{}")
        await client.close()
    assert caught.value.unknown
    assert [asked.method for asked in server.asked] == ["GET", method]


async def test_a_read_lost_on_a_kept_connection_is_repeated_by_the_client() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.connection == 1 and asked.target == "/b":
            writer.close()
        else:
            writer.write(http())

    async with WireServer(answering) as server:
        client = await connect(Cluster(server.url))
        await client.send("GET", "/a")
        assert (await client.send("GET", "/b")).status == 200
        await client.close()
    assert [asked.target for asked in server.asked] == ["/a", "/b", "/b"]


# ── streams ──────────────────────────────────────────────────────────────────────────────────
async def test_a_stream_that_breaks_in_the_middle_is_a_loss() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b"x"))
        await writer.drain()
        writer.transport.abort()

    async with (
        WireServer(answering) as server,
        transport_to(server) as transport,
        transport.stream(Request("GET", "/watch")) as stream,
    ):
        chunks = stream.chunks()
        assert await anext(chunks) == b"x"
        with pytest.raises(Unreachable):
            await anext(chunks)


async def test_a_large_event_comes_through_a_watch(tmp_path: Path) -> None:
    big = b"x" * 1_000_000
    line = b'{"type":"ADDED","object":{"metadata":{"name":"' + big + b'","resourceVersion":"1"}}}\n'

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(line) + chunk(b""))

    async with WireServer(answering, server_tls(tmp_path)) as server:
        client = await connect(Cluster(server.url, ca=CA.pem))
        [event] = [each async for each in client.watch(PODS)]
        await client.close()
    assert len(event.object["metadata"]["name"]) == 1_000_000


async def test_leaving_a_watch_closes_its_connection(tmp_path: Path) -> None:
    ended = asyncio.Event()

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + chunk(b'{"type":"BOOKMARK","object":{}}\n'))
        await writer.drain()
        while not writer.transport.is_closing():
            await asyncio.sleep(0.01)
        ended.set()

    async with WireServer(answering, server_tls(tmp_path)) as server:
        client = await connect(Cluster(server.url, ca=CA.pem))
        watch = client.watch(PODS)
        await anext(watch)
        await watch.aclose()
        async with asyncio.timeout(10):
            await ended.wait()
        await client.close()


async def test_closing_the_transport_ends_what_is_under_way() -> None:
    async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with WireServer(silent) as server:
        client = await connect(Cluster(server.url), retry=RetryPolicy(attempts=1))
        waiting = asyncio.create_task(client.send("POST", "/"))
        while not server.asked:
            await asyncio.sleep(0.01)
        await client.close()
        with pytest.raises(Unreachable) as caught:
            await waiting
    assert caught.value.sent


async def test_closing_the_transport_lets_nobody_leave_who_waits_for_a_turn() -> None:
    async def never(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with WireServer(never) as server:
        transport = HttpTransport(Cluster(server.url), connections=1)
        first = asyncio.create_task(transport.send(Request("GET", "/1")))
        while not server.asked:
            await asyncio.sleep(0.01)
        second = asyncio.create_task(transport.send(Request("GET", "/2")))
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(Unreachable):
            await first
        with pytest.raises(Unreachable, match="closed") as caught:
            await second
    assert not caught.value.sent
    assert [asked.target for asked in server.asked] == ["/1"]


# ── what HTTP/1.1 allows a server ────────────────────────────────────────────────────────────
async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")
        writer.close()

    async with WireServer(answering) as server, transport_to(server) as transport:
        assert (await transport.send(Request("GET", "/"))).body == b"all of it"
        async with transport.stream(Request("GET", "/")) as stream:
            assert b"".join([piece async for piece in stream.chunks()]) == b"all of it"


async def test_an_interim_answer_is_passed_over() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + http(201, b"made"))

    async with WireServer(answering) as server, transport_to(server) as transport:
        response = await transport.send(Request("POST", "/"))
    assert (response.status, response.body) == (201, b"made")
    assert "link" not in response.headers


async def test_an_answer_to_head_has_no_body_to_wait_for() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")

    async with WireServer(answering) as server, transport_to(server) as transport:
        for _ in range(2):
            response = await transport.send(Request("HEAD", "/"))
            assert (response.status, response.body) == (200, b"")


async def test_a_server_that_closes_after_each_answer_is_connected_to_again() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, b"{}", Connection="close"))
        writer.close()

    async with WireServer(answering) as server, transport_to(server) as transport:
        for _ in range(3):
            assert (await transport.send(Request("POST", "/"))).status == 200
    assert server.connections == 3


async def test_the_late_answer_to_a_cancelled_request_is_dropped() -> None:
    answer_now = asyncio.Event()

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.target == "/slow":
            await answer_now.wait()
        writer.write(http(200, asked.target.encode()))

    async with WireServer(answering) as server, transport_to(server) as transport:
        await transport.send(Request("GET", "/first"))
        slow = asyncio.create_task(transport.send(Request("GET", "/slow")))
        while len(server.asked) < 2:
            await asyncio.sleep(0.01)
        slow.cancel()
        await asyncio.wait([slow])
        answer_now.set()
        assert (await transport.send(Request("GET", "/next"))).body == b"/next"


async def test_a_connection_that_speaks_unasked_is_not_used_again() -> None:
    closed = asyncio.Event()

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, asked.target.encode()))
        while asked.target == "/1" and not writer.transport.is_closing():
            await asyncio.sleep(0.01)
            writer.write(http(408, b"too slow"))
        closed.set()

    async with WireServer(answering) as server, transport_to(server) as transport:
        assert (await transport.send(Request("GET", "/1"))).body == b"/1"
        async with asyncio.timeout(10):
            await closed.wait()
        assert (await transport.send(Request("GET", "/2"))).body == b"/2"
    assert server.connections == 2


async def test_nor_is_one_that_did_so_in_the_same_breath_as_its_answer() -> None:
    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        more = http(408, b"too slow")[:-3] if asked.target == "/1" else b""
        writer.write(http(200, asked.target.encode()) + more)

    async with WireServer(answering) as server, transport_to(server) as transport:
        assert (await transport.send(Request("GET", "/1"))).body == b"/1"
        assert (await transport.send(Request("GET", "/2"))).body == b"/2"
    assert server.connections == 2


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "/a b"),
        Request("GET", "/a\r\nx: y"),
        Request("GET", "/", headers={"a": "b\nc"}),
    ],
)
async def test_nothing_slips_into_the_head_of_a_request(request_: Request) -> None:
    async with WireServer(fine) as server, transport_to(server) as transport:
        with pytest.raises(ValueError, match=r"request target|line break"):
            await transport.send(request_)
    assert server.asked == []


async def test_what_a_busy_stream_says_is_read_in_groups(tmp_path: Path) -> None:
    said = [b"%d\n" % number for number in range(50)]

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED)
        for word in said:
            writer.write(chunk(word))
            await writer.drain()
            await asyncio.sleep(0.001)
        writer.write(chunk(b""))

    async with (
        WireServer(answering, server_tls(tmp_path)) as server,
        transport_to(server) as transport,
        transport.stream(Request("GET", "/watch")) as stream,
    ):
        pieces = [piece async for piece in stream.chunks()]
    assert b"".join(pieces) == b"".join(said)
    assert len(pieces) < len(said)


async def test_a_slow_reader_makes_the_server_wait(tmp_path: Path) -> None:
    piece, count = b"x" * 65536, 400
    written = 0

    async def answering(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(CHUNKED)
        for _ in range(count):
            writer.write(chunk(piece))
            await writer.drain()
            written += 1
        writer.write(chunk(b""))

    async with (
        WireServer(answering, server_tls(tmp_path)) as server,
        transport_to(server) as transport,
        transport.stream(Request("GET", "/watch")) as stream,
    ):
        before = -1
        while before != written:
            before = written
            await asyncio.sleep(0.3)
        assert written < count
        read = sum([len(data) async for data in stream.chunks()])
    assert read == len(piece) * count


# ── proxies ──────────────────────────────────────────────────────────────────────────────────
class Tunnel:
    """An HTTP proxy that knows CONNECT, for one or more connections."""

    def __init__(self, refuse: bool = False) -> None:
        self.connects: list[str] = []
        self._refuse = refuse

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://me:pw@127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.connects.append(head)
        if self._refuse:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, port = head.split(" ")[1].split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            sink.write(data)
    except ConnectionError:
        pass
    finally:
        sink.close()


async def test_a_proxy_is_tunnelled_through_with_tls_to_the_far_end(tmp_path: Path) -> None:
    async with (
        WireServer(fine, server_tls(tmp_path)) as server,
        Tunnel() as tunnel,
        transport_to(server, proxy=tunnel.url) as transport,
    ):
        assert (await transport.send(Request("GET", "/"))).status == 200
    assert tunnel.connects[0].startswith(f"CONNECT 127.0.0.1:{server.port} ")
    assert "Proxy-Authorization: Basic" in tunnel.connects[0]


async def test_a_proxy_that_refuses_was_surely_not_passed(tmp_path: Path) -> None:
    async with (
        WireServer(fine, server_tls(tmp_path)) as server,
        Tunnel(refuse=True) as tunnel,
        transport_to(server, proxy=tunnel.url) as transport,
    ):
        with pytest.raises(
            Unreachable, match=r"through proxy 127\.0\.0\.1: the proxy answered 403"
        ) as caught:
            await transport.send(Request("POST", "/"))
    assert not caught.value.sent
    assert "pw" not in str(caught.value)
