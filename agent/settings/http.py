"""Settings of the HTTP servers: where they listen, who may use them, encryption. Pure."""

import ipaddress
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from agent.settings.environment import ExistingFile, LocalPath, Secret
from agent.settings.problems import Problem
from agent.settings.section import Flag, Section, TextPattern, Whole

HostName = Annotated[
    str,
    TextPattern(
        r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?$|^[0-9a-fA-F:.]+$",
        "a host name or an address, without a port",
    ),
]


class Http(Section):
    """An HTTP server of the agent. Reading beyond loopback, and every command, needs a token."""

    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on; other than loopback it needs a token or users, and encryption.",
    )
    port: Whole = Field(default=8787, ge=0, le=65535, description="Port; 0: any free one, which is logged.")
    token: Secret | None = Field(
        default=None, description="Bearer token for reading, as for Prometheus: {env: VARIABLE} or {file: PATH}."
    )
    users: LocalPath | None = Field(
        default=None,
        description="File of people and roles, see `anchormoe-agent users`; read again when it changes.",
    )
    allowed_hosts: tuple[HostName, ...] = Field(
        default=(), description="Names by which clients call the server, besides loopback and its own address."
    )
    cert_file: ExistingFile | None = Field(
        default=None, description="PEM certificate for HTTPS; read again when it changes."
    )
    key_file: ExistingFile | None = Field(default=None, description="PEM key of cert_file, without a password.")
    behind_proxy: Flag = Field(
        default=False, description="A proxy in front encrypts; without it, cert_file is required beyond loopback."
    )

    @property
    def url(self) -> str:
        """Where a client on this machine finds the server; the port must not be 0."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)  # noqa: S104  # not bound to here
        named = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"{'http' if self.cert_file is None else 'https'}://{named}:{self.port}"

    def broken_rules(self) -> Iterator[Problem]:
        if (self.cert_file is None) != (self.key_file is None):
            missing = "cert_file" if self.cert_file is None else "key_file"
            yield Problem((missing,), "missing", "set cert_file and key_file together")
        if is_loopback(self.host):
            return
        if self.token is None and self.users is None:
            right = "write {env: VARIABLE} or {file: PATH}, or set users"
            yield Problem(("token",), f"missing, but {self.host} is not loopback", right)
        if self.cert_file is None and not self.behind_proxy:
            wrong = f"missing, but {self.host} is not loopback: tokens would travel in clear"
            yield Problem(("cert_file",), wrong, "set cert_file and key_file, or behind_proxy: true")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
