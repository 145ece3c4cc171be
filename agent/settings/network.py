"""How the agent talks to Kafka: addresses, encryption, login, and how often it tries again. Pure."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from agent.settings.environment import ExistingFile, Secret, Username
from agent.settings.problems import Problem
from agent.settings.section import Count, Section, Shape
from agent.settings.units import Duration

KAFKA_ADDRESS_VARIABLE = "ANCHORMOE_KAFKA_BOOTSTRAP"
Bootstrap = Annotated[str, Shape(r"^[^\s,:/]+:[0-9]{1,5}(,[^\s,:/]+:[0-9]{1,5})*$", "host:port, several with commas")]


class Retries(Section):
    """Bounded tries with growing pauses."""

    attempts: Count = Field(default=5, description="Tries altogether, the first one included.")
    first_pause: Duration = Field(
        default=Duration.parse("200ms"), description="Pause after the first failure; doubles each time."
    )
    longest_pause: Duration = Field(default=Duration.parse("5s"), description="The pause grows no further than this.")

    def broken_rules(self) -> Iterator[Problem]:
        if self.first_pause > self.longest_pause:
            yield Problem(
                ("first_pause",), f"{self.first_pause} is above longest_pause", f"at most {self.longest_pause}"
            )

    def worst_case_ns(self, timeout_ns: int) -> int:
        """The longest that all tries and pauses together can take."""
        pauses = (min(self.first_pause << tried, self.longest_pause) for tried in range(min(self.attempts - 1, 64)))
        skipped = max(self.attempts - 65, 0) * self.longest_pause
        return self.attempts * timeout_ns + sum(pauses) + skipped


class KafkaSecurity(Section):
    """Encryption and login towards Kafka."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="Kafka's security.protocol."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How to log in; needed with the SASL protocols."
    )
    username: Username | None = Field(default=None, description="Login name: text, {env: …} or {file: …}.")
    password: Secret | None = Field(default=None, description="Login password: {env: VARIABLE} or {file: PATH}.")
    ca_file: ExistingFile | None = Field(default=None, description="PEM file of the authority; null: the system's.")
    cert_file: ExistingFile | None = Field(default=None, description="PEM certificate of this client, for mutual TLS.")
    key_file: ExistingFile | None = Field(default=None, description="PEM key that belongs to cert_file.")
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
                yield Problem((name,), f"missing, and {self.protocol} logs in", "give it")
            if given and not self.logs_in:
                yield Problem((name,), f"without effect with {self.protocol}", "use SASL_SSL, or remove it")

    def _encryption_rules(self) -> Iterator[Problem]:
        for name in ("ca_file", "cert_file", "key_file", "key_password"):
            if getattr(self, name) is not None and not self.encrypted:
                yield Problem((name,), f"without effect with {self.protocol}", "use SSL or SASL_SSL, or remove it")
        if (self.cert_file is None) != (self.key_file is None):
            missing = "cert_file" if self.cert_file is None else "key_file"
            yield Problem((missing,), "missing", "cert_file and key_file belong together")
        if self.key_password is not None and self.key_file is None:
            yield Problem(("key_password",), "without effect without key_file", "name the key_file, or remove it")
