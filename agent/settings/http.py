"""Where the agent answers over HTTP. Pure."""

import ipaddress
from collections.abc import Iterator

from pydantic import Field

from agent.settings.environment import Secret
from agent.settings.problems import Problem
from agent.settings.section import Section, Whole


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Http(Section):
    """Health, metrics and the live page."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; elsewhere than loopback needs a token.")
    port: Whole = Field(default=8787, ge=0, le=65535, description="Port; 0: any free one, which is logged.")
    token: Secret | None = Field(default=None, description="Bearer token: {env: VARIABLE} or {file: PATH}.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.token is None and not _is_loopback(self.host):
            yield Problem(
                ("token",), f"missing, and {self.host} is not loopback", "give {env: VARIABLE} or {file: PATH}"
            )
