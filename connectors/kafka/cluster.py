"""How to reach a cluster: addresses, TLS and SASL as arguments of aiokafka's clients."""

import ssl
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """Passwords are left out of the repr, so that they never reach a log."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    client_id: str = "anchormoe-agent"

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for consumer, producer and admin client."""
        arguments: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            "security_protocol": self.protocol,
        }
        if self.protocol.endswith("SSL"):
            arguments["ssl_context"] = self._tls()
        if self.protocol.startswith("SASL"):
            arguments |= {
                "sasl_mechanism": self.mechanism or "PLAIN",
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return arguments

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file, self.key_password)
        return context
