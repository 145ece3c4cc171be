"""A real schema registry: Apicurio's, with Confluent's HTTP API, from Maven Central; its schemas are kept in memory."""

import json
import shutil
import signal
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.services.java import MAVEN, find_java
from tests.support.services.places import CACHE, alone
from tests.support.services.ports import free_port
from tests.support.services.processes import ServiceProcess
from tests.support.services.requirements import ServiceUnavailable, fetch

VERSION = "2.6.13.Final"
"""The last that runs on Java 17 and that Maven can resolve."""
_ARTIFACT = "io.apicurio:apicurio-registry-app"
_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
_START_S = 180.0


class ApicurioRegistry:
    """`url` is that of Confluent's API."""

    def __init__(self) -> None:
        self._process, self._port = ServiceProcess("apicurio"), free_port()
        self._root = f"http://127.0.0.1:{self._port}"
        self.url = f"{self._root}/apis/ccompat/v7"

    def start(self) -> None:
        program = apicurio()
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        options += [f"-Dquarkus.http.port={self._port}", "-Dquarkus.http.host=127.0.0.1"]
        self._process.launch(["java", *options, "-jar", str(program)])
        self._process.wait_until(self._answers, timeout_s=_START_S)

    def stop(self) -> None:
        self._process.end(signal.SIGTERM)

    def close(self) -> None:
        self._process.close()

    def add(self, subject: str, schema: str, kind: str = "AVRO") -> int:
        """The id that the registry gives it."""
        body = json.dumps({"schema": schema, "schemaType": kind}).encode()
        found: dict[str, Any] = json.loads(self._ask(f"{self.url}/subjects/{subject}/versions", body))
        return int(found["id"])

    def _answers(self) -> bool:
        try:
            self._ask(f"{self.url}/subjects")
        except (urllib.error.URLError, OSError):
            return False
        return True

    @staticmethod
    def _ask(url: str, body: bytes | None = None) -> bytes:
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=20) as answer:
            content: bytes = answer.read()
        return content


def apicurio() -> Path:
    """The program, downloaded and unpacked once per version."""
    if find_java().container:
        raise ServiceUnavailable("The tests need Java and Maven for Apicurio's registry, which has no container here.")
    target = CACHE / f"apicurio-{VERSION}"
    with alone("apicurio"):
        if not target.exists():
            _download(target)
    return next(target.glob("*-runner.jar"))


def _download(target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    fetch([*MAVEN, _PLUGIN, f"-Dartifact={_ARTIFACT}:{VERSION}:tar.gz:all", f"-DoutputDirectory={partial}"])
    [archive] = partial.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(partial, filter="data")
    archive.unlink()
    partial.rename(target)
