"""A real Apache Kafka broker for tests: start, stop, kill -9, restart; SASL and TLS on request."""

import asyncio
import shutil
import ssl
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from tests.support.services.certificates import Authority, Certificate
from tests.support.services.java import LOGGING, find_java
from tests.support.services.java_archive import archive_options
from tests.support.services.kafka_settings import Ports, Security, as_text, server_properties
from tests.support.services.ports import free_port, is_open
from tests.support.services.processes import ServiceProcess, StartedService
from tests.support.services.requirements import ServiceUnavailable, run_tool

START_TIMEOUT_S = 120
Reply = TypeVar("Reply")


class Broker:
    """What a test can do with any broker, its own or an existing one."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Returns when every partition has a leader."""
        topic = NewTopic(name, partitions, 1, topic_configs=dict(config or {}))
        self.call_admin(lambda admin: admin.create_topics([topic]))
        deadline = time.monotonic() + 30
        while self.call_admin(lambda admin: _partitions_with_leader(admin, name)) < partitions:
            if time.monotonic() > deadline:
                raise ServiceUnavailable(f"topic {name} has no leaders after 30 s")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether a metadata request names a running broker; an open port alone does not mean that."""
        if not is_open(self.bootstrap):  # aiokafka would log a line for every attempt
            return False
        try:
            return bool(self.call_admin(lambda admin: admin.describe_cluster())["brokers"])
        except (KafkaError, OSError, TimeoutError):
            return False

    def call_admin(self, request: Callable[[AIOKafkaAdminClient], Awaitable[Reply]]) -> Reply:
        """Runs in a thread with its own loop, so that synchronous fixtures and asynchronous tests can both call it."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(call_admin(self.bootstrap, request))).result()


class ExistingBroker(Broker):
    """The broker at ANCHORMOE_TEST_KAFKA: used, never stopped."""

    def start(self) -> None:
        if not self.answers():
            raise ServiceUnavailable(f"ANCHORMOE_TEST_KAFKA={self.bootstrap} does not answer a metadata request")

    def close(self) -> None:
        """It is not ours to stop."""


class KafkaBroker(StartedService, Broker):
    """A broker of the test's own."""

    def __init__(
        self,
        users: Mapping[str, str] | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        quick_start: bool = True,
    ) -> None:
        """`users` (name to password) adds listeners with SASL, with SASL over TLS, and with client certificates.

        `quick_start=False` is for measurements: the broker starts slower and runs faster.
        """
        self._java = find_java()
        self._quick_start = quick_start
        self._ports = Ports(*(free_port() for _ in range(5)))
        super().__init__(f"127.0.0.1:{self._ports.plain}")
        self._process = ServiceProcess("kafka")
        self.users = dict(users or {})
        self.authority = Authority(self._process.directory / "certificates")
        self._format(dict(properties or {}))

    @property
    def sasl_bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports.sasl}"

    @property
    def sasl_tls_bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports.sasl_tls}"

    @property
    def mtls_bootstrap(self) -> str:
        return f"127.0.0.1:{self._ports.mtls}"

    def tls(self, client: Certificate | None = None) -> ssl.SSLContext:
        """For a client that trusts this broker and, with a certificate, authenticates itself."""
        context = ssl.create_default_context(cafile=self.authority.certificate)
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        return context

    def start(self) -> None:
        directory = self._process.directory
        main = ["kafka.Kafka", str(directory / "server.properties")]
        archive = archive_options(self._java)
        command = self._java.command(directory, main, quick_start=self._quick_start, extra=archive)
        self._process.launch(command, killer=self._java.killer(directory))
        self._process.wait_until(self.answers, START_TIMEOUT_S)

    def change_password(self, name: str, password: str) -> None:
        """Of PLAIN; from the next start on. That of SCRAM stays."""
        path = self._process.directory / "server.properties"
        before, after = (f'user_{name}="{each}"' for each in (self.users[name], password))
        text = path.read_text()
        if before not in text:
            raise RuntimeError(f"{path} has no password of {name}")
        path.write_text(text.replace(before, after))
        self.users[name] = password

    def _format(self, properties: Mapping[str, str]) -> None:
        directory = self._process.directory
        shutil.copy(LOGGING, directory / LOGGING.name)
        settings = {**server_properties(directory, self._ports, self._security()), **properties}
        path = directory / "server.properties"
        path.write_text(as_text(settings))
        main = ["kafka.tools.StorageTool", "format", "-t", random_uuid(), "-c", str(path), *_scram(self.users)]
        run_tool(self._java.command(directory, main, quick_start=True))

    def _security(self) -> Security | None:
        if not self.users:
            return None
        return Security(self.authority.issue("broker").bundle, self.authority.certificate, self.users)


async def call_admin(bootstrap: str, request: Callable[[AIOKafkaAdminClient], Awaitable[Reply]]) -> Reply:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=10_000)
    try:
        await admin.start()
        return await request(admin)
    finally:
        await admin.close()


async def _partitions_with_leader(admin: Any, topic: str) -> int:
    [described] = await admin.describe_topics([topic])
    return sum(partition["leader"] >= 0 for partition in described["partitions"])


def random_uuid() -> str:
    # A leading "-" would read as an option.
    return "A" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def _scram(users: Mapping[str, str]) -> list[str]:
    texts = [f"SCRAM-SHA-256=[name={name},password={password}]" for name, password in users.items()]
    return [word for text in texts for word in ("--add-scram", text)]
