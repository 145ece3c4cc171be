"""Stores of windows between two starts of the agent. Pure."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, model_validator

from agent.settings.environment import ExistingFile, Secret, Username, with_address
from agent.settings.network import Retries
from agent.settings.problems import Problem, invalid
from agent.settings.section import Section, Slug
from agent.settings.units import Duration
from connectors.redis.address import parse_address

REDIS_ADDRESS_VARIABLE = "ANCHORMOE_REDIS_URL"
_FORMS = "redis://host:port/number, redis+cluster://host:port,…, redis+sentinel://host:port,…/master (rediss: TLS)"


def _redis_address(url: str) -> str:
    """Errors do not show the value: it may contain a password."""
    if "@" in urlsplit(url).netloc:
        raise invalid("the address contains a login", "move it to username and password: {env: …} or {file: …}")
    try:
        parse_address(url)
    except ValueError as error:
        raise invalid(str(error), f"use {_FORMS} or unix:///path") from error
    return url


RedisUrl = Annotated[str, AfterValidator(_redis_address)]


class MemoryStoreSettings(Section):
    """The memory of this process; after a restart the windows are rebuilt from the source."""

    kind: Literal["memory"]


class RedisTls(Section):
    """TLS to Redis, with an address that begins with rediss."""

    ca_file: ExistingFile | None = Field(
        default=None, description="PEM file of the certificate authority; null: those of the system."
    )
    cert_file: ExistingFile | None = Field(default=None, description="PEM certificate of this client, for mutual TLS.")
    key_file: ExistingFile | None = Field(default=None, description="PEM key of cert_file.")

    def broken_rules(self) -> Iterator[Problem]:
        if (self.cert_file is None) != (self.key_file is None):
            missing = "cert_file" if self.cert_file is None else "key_file"
            yield Problem((missing,), "missing", "set cert_file and key_file together")


class RedisSentinels(Section):
    """How to reach the sentinels of a redis+sentinel:// address; their login is not that of the servers."""

    username: Username | None = Field(default=None, description="ACL user: a string, {env: …} or {file: …}.")
    password: Secret | None = Field(default=None, description="Password: {env: VARIABLE} or {file: PATH}.")
    tls: bool | None = Field(
        default=None, description="Whether the sentinels use TLS, with the same certificates; null: as the servers."
    )

    def broken_rules(self) -> Iterator[Problem]:
        if self.username is not None and self.password is None:
            yield Problem(("password",), "missing, but there is a username", "write {env: VARIABLE} or {file: PATH}")


class RedisStoreSettings(Section):
    """Redis or Valkey: one server, a cluster, or servers behind sentinels, with maxmemory-policy noeviction."""

    kind: Literal["redis"]
    url: RedisUrl | None = Field(
        default=None,
        description=(
            "redis://host:port/number or unix:///path; redis+cluster://host:port,host:port for a Redis Cluster; "
            "redis+sentinel://host:port,host:port/master for servers behind sentinels; rediss instead of redis: TLS. "
            f"{REDIS_ADDRESS_VARIABLE} overrides it."
        ),
    )
    username: Username | None = Field(default=None, description="ACL user: a string, {env: …} or {file: …}.")
    password: Secret | None = Field(default=None, description="Password: {env: VARIABLE} or {file: PATH}.")
    tls: RedisTls = Field(default=RedisTls(), description="Certificates for TLS.")
    sentinels: RedisSentinels = Field(default=RedisSentinels(), description="Login and TLS of the sentinels.")
    key_prefix: Slug = Field(default="anchormoe", description="Prefix of every key.")
    ttl: Duration = Field(
        default=Duration.parse("7d"), description="Keys expire when they are not written for this long."
    )
    timeout: Duration = Field(default=Duration.parse("5s"), description="Longest wait for one reply.")
    retries: Retries = Field(default=Retries(attempts=3), description="Retries per command.")
    pause_after: Duration = Field(
        default=Duration.parse("1m"),
        description="While Redis is unreachable, publish without committing for this long, then pause.",
    )
    exit_after: Duration = Field(
        default=Duration.parse("5m"), description="Exit when Redis is unreachable for this long."
    )

    @model_validator(mode="before")
    @classmethod
    def _address(cls, raw: Any, info: ValidationInfo) -> Any:
        return _move_login(raw, with_address(raw, "url", REDIS_ADDRESS_VARIABLE, info))

    def broken_rules(self) -> Iterator[Problem]:
        yield from self._address_rules()
        if self.pause_after >= self.exit_after:
            yield Problem(
                ("pause_after",),
                f"{self.pause_after} is not shorter than exit_after",
                f"use less than {self.exit_after}",
            )
        if self.username is not None and self.password is None:
            yield Problem(("password",), "missing, but there is a username", "write {env: VARIABLE} or {file: PATH}")

    def _address_rules(self) -> Iterator[Problem]:
        if self.url is None:
            yield Problem(("url",), "missing", f"write redis://host:port here or set {REDIS_ADDRESS_VARIABLE}")
            return
        address = parse_address(self.url)
        if self.tls != RedisTls() and not address.tls and not self.sentinels.tls:
            yield Problem(("tls",), "has no effect with this address", "use rediss://, or remove it")
        if self.sentinels != RedisSentinels() and address.topology != "sentinel":
            yield Problem(
                ("sentinels",), "has no effect with this address", "use redis+sentinel://host:port/master, or remove it"
            )


def _move_login(written: Any, given: Any) -> Any:
    """An address from the environment may contain a login; it moves to fields that are never printed."""
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
