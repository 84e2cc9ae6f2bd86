"""How many connections the server keeps, and which one goes when there are too many.

A connection that nobody has authenticated on is cheap to open for everyone, so that the oldest of
these goes first: a client with credentials shows them within milliseconds.
"""

from __future__ import annotations

from typing import Protocol

MAX_CONNECTIONS = 2000
CONNECTIONS_PER_CLIENT = 1200
"""Authenticated connections of one user."""
UNAUTHENTICATED_PER_ADDRESS = 128
UNAUTHENTICATED = 256


class Connection(Protocol):
    def abort(self) -> None: ...


class Connections:
    """The open connections, by who holds them."""

    def __init__(self) -> None:
        self._unknown: dict[Connection, str] = {}
        """Without credentials so far, oldest first, with their address."""
        self._known: dict[Connection, str] = {}
        self._counts: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._unknown) + len(self._known)

    def __contains__(self, connection: object) -> bool:
        return connection in self._unknown or connection in self._known

    def all(self) -> tuple[Connection, ...]:
        return (*self._unknown, *self._known)

    def opened(self, connection: Connection, address: str) -> bool:
        """Take a new connection in; False: there is no place for it."""
        here = [one for one, known in self._unknown.items() if known == address]
        if len(here) >= UNAUTHENTICATED_PER_ADDRESS:
            self._drop(here[0])
        elif len(self._unknown) >= UNAUTHENTICATED or (
            len(self) >= MAX_CONNECTIONS and self._unknown
        ):
            self._drop(next(iter(self._unknown)))
        if len(self) >= MAX_CONNECTIONS:
            return False
        self._unknown[connection] = address
        return True

    def authenticated(self, connection: Connection, client: str) -> bool:
        """The connection is `client`'s now; False: the client has too many."""
        if self._known.get(connection) == client:
            return True
        if self._counts.get(client, 0) >= CONNECTIONS_PER_CLIENT:
            return False
        self.closed(connection)
        self._known[connection] = client
        self._counts[client] = self._counts.get(client, 0) + 1
        return True

    def closed(self, connection: Connection) -> None:
        self._unknown.pop(connection, None)
        client = self._known.pop(connection, None)
        if client is not None:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client]

    def _drop(self, connection: Connection) -> None:
        self.closed(connection)
        connection.abort()
