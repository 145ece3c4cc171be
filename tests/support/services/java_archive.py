"""A class data sharing archive of the broker's classes: dumped once, it halves the start-up time of every broker."""

import hashlib
import shutil
import signal
import subprocess
from functools import cache
from pathlib import Path

from tests.support.services.java import LOGGING, Java
from tests.support.services.kafka_settings import Ports, as_text, server_properties
from tests.support.services.places import CACHE, alone
from tests.support.services.ports import free_port, is_open
from tests.support.services.processes import ServiceProcess
from tests.support.services.requirements import run_tool

_CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"


@cache
def archive_options(java: Java) -> list[str]:
    """Options for the JVM, which ignores an archive that does not fit. None for a container, which keeps no files."""
    if java.container:
        return []
    version = subprocess.run(["java", "-version"], capture_output=True, check=False).stderr
    digest = hashlib.sha256(version + java.classpath.encode()).hexdigest()[:12]
    archive = CACHE / f"kafka-classes-{digest}.jsa"
    with alone("kafka-classes"):
        if not archive.exists():
            _record(java, archive)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []


def _record(java: Java, archive: Path) -> None:
    """Runs a broker until it listens; the JVM writes the archive at exit."""
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    ports = Ports(free_port(), free_port(), 0, 0, 0)
    process = ServiceProcess("kafka-classes")
    settings = process.directory / "server.properties"
    settings.write_text(as_text(server_properties(process.directory, ports, security=None)))
    shutil.copy(LOGGING, process.directory / LOGGING.name)
    tool = ["kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(settings)]
    broker = ["kafka.Kafka", str(settings)]
    recording = [f"-XX:ArchiveClassesAtExit={partial}"]
    try:
        run_tool(java.command(process.directory, tool, quick_start=True))
        process.launch(java.command(process.directory, broker, quick_start=True, extra=recording))
        process.wait_until(lambda: is_open(f"127.0.0.1:{ports.plain}"), timeout_s=120)
        process.end(signal.SIGTERM, timeout_s=120)
        if partial.exists():  # not every vendor's JVM can write one
            partial.rename(archive)
    finally:
        process.close()
