"""How to reach a cluster: addresses, TLS and SASL as arguments of aiokafka's clients."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka.client import AIOKafkaClient

from connectors.secret_files import SecretFile, reveal_secret
from connectors.tls import client_context


class _CurrentLogin(AIOKafkaClient):  # type: ignore[misc] # aiokafka has no annotations
    """aiokafka keeps the password that it was given first; this one asks for it before each connection."""

    current_password: Callable[[], str]

    @property
    def _sasl_plain_password(self) -> str:
        return self.current_password()


@dataclass(frozen=True, slots=True)
class Cluster:
    """Passwords are left out of the repr, so that they never reach a log."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | SecretFile | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | SecretFile | None = field(default=None, repr=False)
    client_id: str = "anchormoe-agent"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for consumer, producer and admin client."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            "security_protocol": self.protocol,
        }
        if self.protocol.endswith("SSL"):
            arguments["ssl_context"] = client_context(
                ca_file=self.ca_file,
                cert_file=self.cert_file,
                key_file=self.key_file,
                key_password=self.key_password,
            )
        if self.protocol.startswith("SASL"):
            arguments |= {
                "sasl_mechanism": self.mechanism or "PLAIN",
                "sasl_plain_username": self.username,
                "sasl_plain_password": reveal_secret(self.password),
            }
        return arguments

    def follow_login(self, client: Any) -> None:
        """Let a consumer, producer or admin client log in with what the secret file holds at each connection."""
        if isinstance(self.password, SecretFile):
            inner: Any = getattr(client, "_client", None) or client.client
            inner.current_password = self.password.read
            inner.__class__ = _CurrentLogin
