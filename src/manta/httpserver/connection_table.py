"""The open connections, how many there may be, and which one is closed when there are too many.

Anyone can open a connection without credentials, so the oldest unauthenticated one is closed first:
a client with credentials sends them within milliseconds.
"""

from __future__ import annotations

from typing import Protocol

from manta.httpserver.limits import Limits


class Connection(Protocol):
    def abort(self) -> None: ...


class ConnectionTable:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._unauthenticated: dict[Connection, str] = {}
        """With their address, oldest first."""
        self._authenticated: dict[Connection, str] = {}
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._unauthenticated) + len(self._authenticated)

    def __contains__(self, connection: object) -> bool:
        return connection in self._unauthenticated or connection in self._authenticated

    def all(self) -> tuple[Connection, ...]:
        return (*self._unauthenticated, *self._authenticated)

    def opened(self, connection: Connection, address: str) -> bool:
        """Add a new connection; return False when the server is full."""
        same = [one for one, known in self._unauthenticated.items() if known == address]
        if len(same) >= self._limits.anonymous_connections_per_address:
            self._drop(same[0])
        elif len(self._unauthenticated) >= self._limits.anonymous_connections or (
            len(self) >= self._limits.connections and self._unauthenticated
        ):
            self._drop(next(iter(self._unauthenticated)))
        if len(self) >= self._limits.connections:
            return False
        self._unauthenticated[connection] = address
        return True

    def authenticated(self, connection: Connection, client: str) -> bool:
        """Count the connection for `client`; return False when the client has too many."""
        if self._authenticated.get(connection) == client:
            return True
        if self._counts.get(client, 0) >= self._limits.connections_per_user:
            return False
        self.closed(connection)
        self._authenticated[connection] = client
        self._counts[client] = self._counts.get(client, 0) + 1
        return True

    def closed(self, connection: Connection) -> None:
        self._unauthenticated.pop(connection, None)
        client = self._authenticated.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]

    def _drop(self, connection: Connection) -> None:
        self.closed(connection)
        connection.abort()
