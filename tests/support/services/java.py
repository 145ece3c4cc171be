"""Java for the broker: the system's with jars from Maven, else what apt installs, else a Docker image."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.services.places import CACHE, SERVICES, alone
from tests.support.services.requirements import ServiceUnavailable, can_install_packages, fetch, install_packages

OLDEST_JAVA = 17
IMAGE = "apache/kafka:4.3.0"
POM = SERVICES / "pom.xml"
LOGGING = SERVICES / "log4j2.properties"
MAVEN = (
    *("mvn", "-q", "-B", "-U"),  # it remembers for a day that a download has failed, unless it is told to look again
    *("-Dmaven.wagon.rto=60000", "-Daether.connector.requestTimeout=60000"),  # half an hour by default
)
HOW_TO_GET_KAFKA = (
    "The tests need a Kafka broker. Either install Java 17 or newer and Maven (Debian: apt-get install "
    "openjdk-17-jre-headless maven), or start a Docker engine that this user may use. "
    "ANCHORMOE_TEST_KAFKA=host:port uses an existing broker."
)


@dataclass(frozen=True, slots=True)
class Java:
    """A way to run a main class of the broker's jars."""

    classpath: str
    container: bool = False

    def command(
        self, directory: Path, main: Sequence[str], *, quick_start: bool, heap_mb: int = 512, extra: Sequence[str] = ()
    ) -> list[str]:
        """`directory` is the broker's; in a container it is mounted at its own path, and its name is the container's.

        A quick start leaves out the optimising compiler: the broker is up seconds earlier and slower under load.
        """
        start = self._container(directory) if self.container else ["java"]
        options = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={directory / LOGGING.name}"]
        quick = ["-XX:TieredStopAtLevel=1"] if quick_start else []
        return [*start, *options, *quick, *extra, "-cp", self.classpath, *main]

    def killer(self, directory: Path) -> list[str]:
        return ["docker", "kill", directory.name] if self.container else []

    @staticmethod
    def _container(directory: Path) -> list[str]:
        user = f"{os.getuid()}:{os.getgid()}"
        run = ["docker", "run", "--rm", "--network", "host", "--name", directory.name, "--user", user]
        return [*run, "--volume", f"{directory}:{directory}", "--entrypoint", "java", IMAGE]


@cache
def find_java() -> Java:
    return choose_java(_has_tools, _install_tools, _docker_answers)


def choose_java(has_tools: Callable[[], bool], install: Callable[[], str], docker: Callable[[], bool]) -> Java:
    """`install` returns the reason why it failed, or an empty string."""
    reason = "" if has_tools() else install()
    if has_tools():
        return Java(classpath=f"{broker_jars()}/*")
    if docker():
        return Java(classpath="/opt/kafka/libs/*", container=True)
    raise ServiceUnavailable(f"{HOW_TO_GET_KAFKA}\n{reason}".strip())


def broker_jars() -> Path:
    """The directory of the broker's jars, downloaded once per version of the pom."""
    digest = hashlib.sha256(POM.read_bytes()).hexdigest()[:12]
    target = CACHE / f"kafka-libs-{digest}"
    with alone("kafka-libs"):
        if not target.exists():
            _download_jars(target)
    return target


def _download_jars(target: Path) -> None:
    partial = target.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    fetch([*MAVEN, "-f", str(POM), *goal])
    partial.rename(target)


def _has_tools() -> bool:
    return shutil.which("mvn") is not None and _java_version() >= OLDEST_JAVA


def _java_version() -> int:
    if shutil.which("java") is None:
        return 0
    output = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', output)
    return int(found.group(1)) if found else 0


def _install_tools() -> str:
    if not can_install_packages():
        return "Nothing was installed: that needs apt-get and root."
    reason = ""
    for package in ("openjdk-17-jre-headless", "default-jre-headless"):  # newer Debians have only a newer Java
        try:
            install_packages(package, "maven")
        except ServiceUnavailable as error:
            reason = str(error)
        else:
            return ""
    return reason


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=20, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
