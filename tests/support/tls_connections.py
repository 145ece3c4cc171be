"""TLS connections: a server that closes slowly, and a wait for connections that a client left open."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.services.certificates import Authority

_CLOSE_AFTER_S = 0.4


@contextmanager
def slow_to_close(authority: Authority, reply: bytes) -> Iterator[str]:
    """The address of a server that serves one client: it sends the reply and closes the connection late."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate = authority.issue("server")
    context.load_cert_chain(certificate.certificate, certificate.key)
    hang_up = threading.Event()

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as client:
            client.recv(1000)
            client.sendall(reply)
            hang_up.wait(_CLOSE_AFTER_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        hang_up.set()
        server.join()


def open_connections() -> list[Any]:
    """Of the running loop; asyncio has no public list of them."""
    loop: Any = asyncio.get_running_loop()
    return [transport for transport in loop._transports.values() if not transport.is_closing()]


async def connections_closed(timeout_s: float = 40) -> None:
    """Call it at the end of a test that was refused over TLS: returns when the loop has no open connection any more.

    aiokafka does not wait until a broker that refused it has closed the connection. If the loop ends before that, the
    socket stays open until garbage collection, whose warning then fails whichever test is running.
    """
    async with asyncio.timeout(timeout_s):  # asyncio itself waits 30 s for the other side
        while open_connections():  # noqa: ASYNC110  # asyncio has no event for it
            await asyncio.sleep(0.01)
