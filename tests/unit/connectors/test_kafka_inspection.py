"""Asking a cluster about itself: what is left behind afterwards."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka.cluster import Cluster
from connectors.kafka.inspection import inspect_cluster
from connectors.outages import Outage
from tests.services.certificates import Authority

SLOW_GOODBYE_S = 0.4


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def address(authority: Authority) -> Iterator[str]:
    """Speaks TLS, answers a question nobody asked, and takes its time to hang up."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    broker = authority.issue("broker")
    context.load_cert_chain(broker.certificate, broker.key)
    waiting = threading.Event()

    def answer() -> None:
        plain, _ = listener.accept()
        with context.wrap_socket(plain, server_side=True) as caller:
            caller.recv(1000)
            caller.sendall(b"\0\0\0\4\0\0\0\7")
            waiting.wait(SLOW_GOODBYE_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer)
        server.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        waiting.set()
        server.join()


async def test_a_connection_over_tls_is_gone_when_the_answer_is_there(authority: Authority, address: str) -> None:
    cluster = Cluster(address, protocol="SSL", ca_file=str(authority.certificate))
    assert isinstance(await inspect_cluster(cluster, [], timeout_s=20), Outage)
    loop: Any = asyncio.get_running_loop()
    assert [transport for transport in loop._transports.values() if not transport.is_closing()] == []
