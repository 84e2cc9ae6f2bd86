"""A dashboard of Ray with given answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def serving(answers: Mapping[str, bytes], token: str = "") -> Iterator[str]:
    """The address of a dashboard that answers these URIs, to whoever has the token."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = f"Bearer {token}" if token else None
            body = answers.get(self.path.removeprefix("/"))
            allowed = self.headers.get("x-ray-authorization") == wanted
            self.send_response(401 if not allowed else 404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
