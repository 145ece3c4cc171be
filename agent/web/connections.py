"""Connections with limits: how many there are, and how long one may take for a request or for reading an answer.

uvicorn waits for a request's head without end and counts only requests: clients that send one byte a minute would
hold a socket each, on the loop that the pipeline needs.
"""

import asyncio
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 64
MAX_HEAD_BYTES = 16_384
KEEP_OPEN = "keep_open"
"""Name in the state of a request, of a function: the answer goes on, the time limit begins anew."""
_HEAD_S = 10.0
_REQUEST_S = 30.0


class LimitedConfig(uvicorn.Config):
    """uvicorn's configuration with our limits."""

    max_connections = MAX_CONNECTIONS
    head_s, request_s = _HEAD_S, _REQUEST_S


class LimitedProtocol(H11Protocol):
    """One connection. The oldest one that waits for a request makes room for a new one."""

    config: LimitedConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expire_after(self.config.head_s)
        if len(self.connections) > self.config.max_connections:
            waiting = [one for one in self.connections if isinstance(one, LimitedProtocol) and not one.busy]
            min(waiting, key=lambda one: one._since_s, default=self).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        cycle = self.cycle
        try:
            super().data_received(data)
        except h11.LocalProtocolError:  # the request broke off in a way in which uvicorn cannot say so
            self.abort()
        if self.cycle is not cycle and self.busy:
            self._expire_after(self.config.request_s)
            # The application has not run yet. A long answer calls this whenever it could write something.
            self.cycle.scope["state"][KEEP_OPEN] = lambda: self._expire_after(self.config.request_s)

    def on_response_complete(self) -> None:
        """The answer may still be in the buffer: a client that never reads it must not keep it there."""
        unread = self.transport.get_write_buffer_size() > 0
        self._since_s = self.loop.time()
        self._expire_after(self.config.request_s if unread else self.config.head_s)
        super().on_response_complete()

    @property
    def busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """Also when the other side reads nothing, for which a plain close would wait."""
        self.connections.discard(self)
        self.transport.abort()

    def _expire_after(self, seconds: float) -> None:
        self._cancel_deadline()
        self._deadline = self.loop.call_later(seconds, self.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
