"""Goodbyes over TLS: a server that takes its time with it, and a wait for those that nobody waited for."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.services.certificates import Authority

GOODBYE_AFTER_S = 0.4


@contextmanager
def slow_to_hang_up(authority: Authority, answer: bytes) -> Iterator[str]:
    """Its address. One caller is served."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own = authority.issue("server")
    context.load_cert_chain(own.certificate, own.key)
    nobody_waits = threading.Event()

    def serve() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as caller:
            caller.recv(1000)
            caller.sendall(answer)
            nobody_waits.wait(GOODBYE_AFTER_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve)
        server.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        nobody_waits.set()
        server.join()


def open_connections() -> list[Any]:
    """Of the running loop; asyncio has no public list of them."""
    loop: Any = asyncio.get_running_loop()
    return [transport for transport in loop._transports.values() if not transport.is_closing()]


async def goodbyes_said(timeout_s: float = 40) -> None:
    """The last line of a test that was refused over TLS: returns when the loop has no open connection any more.

    aiokafka does not wait for the goodbye of a broker that refused it. Where a loop ends before that, the socket stays
    open until the collector finds it, whose warning is then the failure of whichever test is running.
    """
    async with asyncio.timeout(timeout_s):  # asyncio itself waits 30 s for a goodbye
        while open_connections():  # noqa: ASYNC110  # asyncio has no event for it
            await asyncio.sleep(0.01)
