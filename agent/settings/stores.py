"""Where the windows are kept between two starts. Pure."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, model_validator

from agent.settings.environment import ExistingFile, Secret, Username, with_address
from agent.settings.network import Retries
from agent.settings.problems import Problem, refusal
from agent.settings.section import Section, Slug
from agent.settings.units import Duration

REDIS_ADDRESS_VARIABLE = "ANCHORMOE_REDIS_URL"
_FORMS = r"(redis|rediss)://[^\s/]+(/[0-9]+)?|unix:///\S+"


def _redis_address(url: str) -> str:
    """Says nothing of the value itself: it may carry a password."""
    if re.fullmatch(_FORMS, url) is None:
        raise refusal("this is no address of Redis", "use redis://host:port/number, rediss://… or unix:///path")
    if "@" in urlsplit(url).netloc:
        raise refusal("the address carries a login", "move it to username and password: {env: …} or {file: …}")
    return url


RedisUrl = Annotated[str, AfterValidator(_redis_address)]


class MemoryStoreSettings(Section):
    """This process only; after a restart the windows are rebuilt from the source."""

    kind: Literal["memory"]


class RedisTls(Section):
    """Encryption towards Redis, with a rediss:// address."""

    ca_file: ExistingFile | None = Field(default=None, description="PEM file of the authority; null: the system's.")
    cert_file: ExistingFile | None = Field(default=None, description="PEM certificate of this client, for mutual TLS.")
    key_file: ExistingFile | None = Field(default=None, description="PEM key that belongs to cert_file.")

    def broken_rules(self) -> Iterator[Problem]:
        if (self.cert_file is None) != (self.key_file is None):
            missing = "cert_file" if self.cert_file is None else "key_file"
            yield Problem((missing,), "missing", "cert_file and key_file belong together")


class RedisStoreSettings(Section):
    """Redis or Valkey with maxmemory-policy noeviction."""

    kind: Literal["redis"]
    url: RedisUrl | None = Field(
        default=None,
        description=f"redis://host:port/number, rediss:// with TLS, or unix:///path; {REDIS_ADDRESS_VARIABLE} wins.",
    )
    username: Username | None = Field(default=None, description="ACL user: text, {env: …} or {file: …}.")
    password: Secret | None = Field(default=None, description="Password: {env: VARIABLE} or {file: PATH}.")
    tls: RedisTls = Field(default=RedisTls(), description="Certificates.")
    key_prefix: Slug = Field(default="anchormoe", description="First part of every key.")
    ttl: Duration = Field(default=Duration.parse("7d"), description="Keys that are not written for this long vanish.")
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest wait for one answer.")
    retries: Retries = Field(default=Retries(attempts=3), description="Tries per command.")
    pause_after: Duration = Field(
        default=Duration.parse("1m"), description="Without Redis, go on without committing for this long, then pause."
    )
    exit_after: Duration = Field(default=Duration.parse("5m"), description="Without Redis for this long, exit.")

    @model_validator(mode="before")
    @classmethod
    def _address(cls, raw: Any, info: ValidationInfo) -> Any:
        return _credentials_apart(raw, with_address(raw, "url", REDIS_ADDRESS_VARIABLE, info))

    def broken_rules(self) -> Iterator[Problem]:
        yield from self._address_rules()
        if self.pause_after >= self.exit_after:
            yield Problem(("pause_after",), f"{self.pause_after} is not below exit_after", f"below {self.exit_after}")
        if self.username is not None and self.password is None:
            yield Problem(("password",), "missing, and there is a username", "give {env: VARIABLE} or {file: PATH}")

    def _address_rules(self) -> Iterator[Problem]:
        if self.url is None:
            yield Problem(("url",), "no address", f"write redis://host:port here or set {REDIS_ADDRESS_VARIABLE}")
        if self.tls != RedisTls() and not (self.url or "rediss:").startswith("rediss:"):
            yield Problem(("tls",), "without effect with this address", "use rediss://, or remove it")


def _credentials_apart(written: Any, given: Any) -> Any:
    """An address from the environment may carry a login; it moves to where secrets are never printed."""
    if given is written:
        return written
    parts = urlsplit(given["url"])
    if "@" not in parts.netloc:
        return given
    login = {"username": parts.username, "password": parts.password}
    moved = {name: unquote(value) for name, value in login.items() if value}
    if "password" in moved:
        moved["password"] = SecretStr(moved["password"])  # type: ignore[assignment] # a validator input, typed only afterwards
    return {**given, **moved, "url": parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()}


Store = Annotated[MemoryStoreSettings | RedisStoreSettings, Field(discriminator="kind")]
