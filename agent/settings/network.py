"""Network settings: Kafka's address, encryption and login, retries. Pure."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from agent.settings.environment import ExistingFile, Secret, Username
from agent.settings.problems import Problem, invalid
from agent.settings.section import Count, Section, TextPattern
from agent.settings.units import Duration

KAFKA_ADDRESS_VARIABLE = "ANCHORMOE_KAFKA_BOOTSTRAP"


def _ports_that_exist(text: str) -> str:
    for address in text.split(","):
        if not 0 < int(address.rpartition(":")[2]) < 1 << 16:
            raise invalid(f"{address}: there is no such port", "use 1 to 65535")
    return text


Bootstrap = Annotated[
    str,
    TextPattern(r"^[^\s,:/]+:[0-9]{1,5}(,[^\s,:/]+:[0-9]{1,5})*$", "host:port, several separated by commas"),
    AfterValidator(_ports_that_exist),
]


class Retries(Section):
    """A limited number of attempts with growing pauses."""

    attempts: Count = Field(default=5, description="Number of attempts, the first one included.")
    first_pause: Duration = Field(
        default=Duration.parse("200ms"), description="Pause after the first failure; doubles each time."
    )
    longest_pause: Duration = Field(default=Duration.parse("5s"), description="Longest pause.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.first_pause > self.longest_pause:
            yield Problem(
                ("first_pause",),
                f"{self.first_pause} is longer than longest_pause",
                f"use at most {self.longest_pause}",
            )

    def worst_case_ns(self, timeout_ns: int) -> int:
        """The longest that all attempts and pauses together can take."""
        pauses = (min(self.first_pause << tried, self.longest_pause) for tried in range(min(self.attempts - 1, 64)))
        skipped = max(self.attempts - 65, 0) * self.longest_pause
        return self.attempts * timeout_ns + sum(pauses) + skipped


class KafkaSecurity(Section):
    """Encryption and login for Kafka."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="security.protocol of the client."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="sasl.mechanism; required with the SASL protocols."
    )
    username: Username | None = Field(default=None, description="Login name: a string, {env: …} or {file: …}.")
    password: Secret | None = Field(default=None, description="Login password: {env: VARIABLE} or {file: PATH}.")
    ca_file: ExistingFile | None = Field(
        default=None, description="PEM file of the certificate authority; null: those of the system."
    )
    cert_file: ExistingFile | None = Field(default=None, description="PEM certificate of this client, for mutual TLS.")
    key_file: ExistingFile | None = Field(default=None, description="PEM key of cert_file.")
    key_password: Secret | None = Field(
        default=None, description="Password of key_file: {env: VARIABLE} or {file: PATH}."
    )

    @property
    def encrypted(self) -> bool:
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def logs_in(self) -> bool:
        return self.protocol.startswith("SASL")

    def broken_rules(self) -> Iterator[Problem]:
        yield from self._login_rules()
        yield from self._encryption_rules()

    def _login_rules(self) -> Iterator[Problem]:
        for name in ("sasl_mechanism", "username", "password"):
            given = getattr(self, name) is not None
            if self.logs_in and not given:
                yield Problem((name,), f"missing, but required by {self.protocol}", "set it")
            if given and not self.logs_in:
                yield Problem((name,), f"has no effect with {self.protocol}", "use SASL_SSL, or remove it")

    def _encryption_rules(self) -> Iterator[Problem]:
        for name in ("ca_file", "cert_file", "key_file", "key_password"):
            if getattr(self, name) is not None and not self.encrypted:
                yield Problem((name,), f"has no effect with {self.protocol}", "use SSL or SASL_SSL, or remove it")
        if (self.cert_file is None) != (self.key_file is None):
            missing = "cert_file" if self.cert_file is None else "key_file"
            yield Problem((missing,), "missing", "set cert_file and key_file together")
        if self.key_password is not None and self.key_file is None:
            yield Problem(("key_password",), "has no effect without key_file", "set key_file, or remove it")
