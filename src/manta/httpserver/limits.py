"""The limits of an HTTP server. The defaults are those of our API server."""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """`anonymous` means: no request on the connection was authenticated yet."""

    body_bytes: int = 3 * _MIB
    """The body of one request."""
    head_bytes: int = 64 * 1024
    """The request line, all headers and all trailers."""
    header_count: int = 256
    query_count: int = 1000
    """Parameters in a query."""

    request_seconds: float = 60.0
    """How long a client may take to send one request, and to read a response."""
    idle_seconds: float = 240.0
    """How long a connection may wait for its next request."""
    anonymous_request_seconds: float = 10.0
    """Request timeout of anonymous clients; also of the TLS handshake."""
    anonymous_idle_seconds: float = 10.0
    stream_seconds: float = 600.0
    """How long the client of a stream may stop reading: a user may read a log in a pager."""

    connections: int = 2000
    connections_per_user: int = 1200
    anonymous_connections: int = 256
    anonymous_connections_per_address: int = 128

    client_bytes: int = 24 * _MIB
    """Memory for the requests and responses of one client."""
    total_bytes: int = 64 * _MIB
    """Memory for the requests and responses of all clients."""
