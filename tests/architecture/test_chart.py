"""The Helm chart without a cluster: rendered over a matrix of values, checked by schemas and by the agent itself."""

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml
from typer.testing import CliRunner

from agent.cli.main import app
from agent.settings import examine
from agent.settings.units import Duration
from tests.support import published_schemas
from tests.support.chart import (
    CHART,
    NAMESPACE,
    NEWEST,
    OLDEST,
    RELEASE,
    ROOT,
    VALUES,
    Manifest,
    build,
    containers,
    of_kind,
    own_pods,
    plant,
    pods,
    refusal,
    rendered,
    run_helm,
)

matrix = pytest.mark.parametrize("values", VALUES)


def test_the_matrix_has_the_ways_in_which_the_chart_is_used() -> None:
    assert set(VALUES) >= {
        "minimal", "everything", "deployment", "no-redis", "existing-configmap", "alarms-only", "keda-kafka",
    }  # fmt: skip


def test_what_the_chart_has_from_elsewhere_is_fresh() -> None:
    stale = [path.name for path, text in build()["built"]().items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run: python deploy/helm/build.py"


def test_the_chart_is_of_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    assert chart["appVersion"] == version[1]


@matrix
def test_helm_lints_the_values_strictly(values: str) -> None:
    done = run_helm("lint", values)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize(
    ("setting", "path", "complaint"),
    [
        ('plant.source.bootstrapp="kafka:9092"', r"plant[./]source", "bootstrapp"),
        ('plant.emission={"policy": "sometimes"}', r"plant[./]emission[./]policy", "changes"),
        ('plant.checkpoint={"every": "5 parsecs"}', r"plant[./]checkpoint[./]every", "pattern"),
        ('plant.groups[0].max_assets="many"', r"plant[./]groups[./]0[./]max_assets", "integer"),
        ('replicaz=3', "", "replicaz"),
        ('agent.replicas=0', r"agent[./]replicas", "1"),
        ('agent.workload="DaemonSet"', r"agent[./]workload", "StatefulSet"),
        ('image.tag="latest"', r"image[./]tag", "not"),
        ('alerts.disabled=["AnchormoeNothing"]', r"alerts[./]disabled", "AnchormoeDown"),
        ('extraEnv=[{"name": "KAFKA_PASSWORD", "value": "hunter2"}]', r"extraEnv[./]0[./]name", "not"),
        ('plant.source.security={"protocol": "SASL_SSL", "password": "hunter2"}', r"plant[./]source", "password|oneOf"),
        ('extraEnv=[{"name": "OMP_NUM_THREADS", "value": 2}]', r"extraEnv[./]0[./]value", "string"),
        ('agent.resources.limits.memory="2 GB"', r"agent[./]resources[./]limits[./]memory", "pattern"),
        ('agent.podLabels={"app.kubernetes.io/name": "x"}', r"agent[./]podLabels", "app.kubernetes.io/name|not"),
        ('secretFiles=[{"secret": "a", "mountPath": "/etc/anchormoe/"}]', r"secretFiles[./]0[./]mountPath", "not"),
        ('kafka.bootstrap="kafka"', r"kafka[./]bootstrap", "pattern"),
        ('http.tokenKey=""', r"http[./]tokenKey", "pattern"),
        ('fullnameOverride="hall.north"', r"fullnameOverride", "pattern"),
    ],
)  # fmt: skip
def test_lint_refuses_wrong_values_and_says_where(setting: str, path: str, complaint: str) -> None:
    done = run_helm("lint", "minimal", setting)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert re.search(path, said), said
    assert re.search(complaint, said, re.IGNORECASE), said


CUSTOM = set(published_schemas.SOURCES)


def problems(thing: Manifest, version: str) -> list[str]:
    if thing["kind"] in CUSTOM:
        return published_schemas.problems(thing)
    try:
        kubernetes_validate.validate(thing, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error)]
    return []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@matrix
def test_every_object_is_valid(values: str, version: str) -> None:
    found = {f"{each['kind']}/{each['metadata']['name']}": problems(each, version) for each in rendered(values)}
    assert {name: what for name, what in found.items() if what} == {}
    assert len(found) == len(rendered(values)), "two objects of one name"


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        ("StatefulSet", {"replicaz": 2}),
        ("ScaledObject", {"minReplicas": 2}),
        ("ServiceMonitor", {"endpoint": []}),
        ("PrometheusRule", {"groups": [{"rules": []}]}),
        ("HTTPRoute", {"hosts": []}),
    ],
)
def test_a_wrong_field_is_noticed(kind: str, wrong: dict[str, Any]) -> None:
    [right, *_] = of_kind(kind, "everything")
    assert problems(right, NEWEST) == []
    assert problems({**right, "spec": {**right["spec"], **wrong}}, NEWEST) != []


@matrix
def test_everything_is_in_the_namespace_and_says_whose_it_is(values: str) -> None:
    for each in rendered(values):
        assert each["metadata"]["namespace"] == NAMESPACE
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == RELEASE
        assert len(each["metadata"]["name"]) <= 63


@matrix
def test_images_have_a_fixed_version(values: str) -> None:
    images = {container["image"] for _, pod in pods(values) for container in containers(pod)}
    assert images
    for image in images:
        assert re.search(r"(:[\w.-]+|@sha256:[0-9a-f]{64})$", image), image
        assert not image.endswith(":latest")


@matrix
def test_every_container_is_hardened_and_asks_for_what_it_needs(values: str) -> None:
    for name, pod in pods(values):
        context = pod["spec"]["securityContext"]
        assert context["runAsNonRoot"] is True, name
        assert context["runAsUser"] > 0
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False, name
        for container in containers(pod):
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True, (name, container["name"])
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= set(container["resources"]["requests"])
            assert set(container["resources"]["limits"]) == {"memory"}, "a limit of CPU stops heartbeats"


def matches(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


@matrix
def test_selectors_find_the_pods_that_they_mean(values: str) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(values)}
    for each in rendered(values):
        spec = each.get("spec", {})
        if each["kind"] in ("StatefulSet", "Deployment", "PodDisruptionBudget"):
            wanted = spec["selector"]["matchLabels"]
        elif each["kind"] == "Service":
            wanted = spec["selector"]
        elif each["kind"] == "NetworkPolicy":
            wanted = spec["podSelector"]["matchLabels"]
        else:
            continue
        found = [name for name, own in labels.items() if matches(wanted, own)]
        assert found == [each["metadata"]["name"].removesuffix("-pods")], each["kind"]


@matrix
def test_a_service_monitor_finds_one_service_with_its_port(values: str) -> None:
    for monitor in of_kind("ServiceMonitor", values):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        found = [each for each in of_kind("Service", values) if matches(wanted, each["metadata"]["labels"])]
        assert [each["metadata"]["name"] for each in found] == [monitor["metadata"]["name"]]
        [endpoint] = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in found[0]["spec"]["ports"]}
        assert endpoint["authorization"]["credentials"] == {"name": "anchormoe-http", "key": "token"}


@matrix
def test_services_ingress_and_accounts_that_are_named_exist(values: str) -> None:
    services = {each["metadata"]["name"]: each for each in of_kind("Service", values)}
    for each in of_kind("StatefulSet", values):
        assert services[each["spec"]["serviceName"]]["spec"]["clusterIP"] == "None"
    for each in of_kind("Ingress", values):
        [rule] = each["spec"]["rules"]
        backend = rule["http"]["paths"][0]["backend"]["service"]
        assert backend["port"]["name"] in {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
        assert each["spec"]["tls"][0]["hosts"] == [rule["host"]]
    for each in of_kind("HTTPRoute", values):
        [backend] = each["spec"]["rules"][0]["backendRefs"]
        assert backend["port"] in {port["port"] for port in services[backend["name"]]["spec"]["ports"]}
    accounts = {each["metadata"]["name"] for each in of_kind("ServiceAccount", values)} | {"default"}
    assert {pod["spec"].get("serviceAccountName", "default") for _, pod in pods(values)} <= accounts


@matrix
def test_secrets_are_only_ever_referred_to(values: str) -> None:
    assert of_kind("Secret", values) == []
    for _, pod in pods(values):
        for container in containers(pod):
            for variable in container.get("env", ()):
                if re.search(r"PASSWORD|TOKEN|SECRET|REDIS_URL", variable["name"]):
                    assert set(variable["valueFrom"]) == {"secretKeyRef"}
    text = plant(values)
    if text is not None:
        for name, value in leaves(yaml.safe_load(text)):
            if re.search(r"password|token", name):
                assert name.endswith(("env", "file")), f"{name}: {value}"


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [leaf for key, each in value.items() for leaf in leaves(each, f"{path}.{key}")]
    if isinstance(value, list):
        return [leaf for at, each in enumerate(value) for leaf in leaves(each, f"{path}.{at}")]
    return [(path, value)]


@matrix
def test_the_agent_accepts_the_plant_that_is_mounted(values: str, tmp_path: Path) -> None:
    text = plant(values)
    if text is None:
        assert "existingConfigMap" in VALUES[values].read_text()
        return
    (tmp_path / "plant.yaml").write_text(text)
    for name, pod in own_pods(values):
        environ = {
            each["name"]: each.get("value", "redis://cache:6379/0") for each in pod["spec"]["containers"][0]["env"]
        }
        examined = examine(tmp_path / "plant.yaml", environ, with_bundles=False, with_secrets=False)
        assert [str(problem) for problem in examined.problems if problem.severity == "error"] == [], name


def test_large_numbers_of_the_plant_stay_numbers() -> None:
    """Helm reads numbers as floating point, and would print 2e+06."""
    assert yaml.safe_load(plant("minimal") or "")["groups"][0]["max_assets"] == 2_000_000


def command_of(arguments: list[str]) -> str:
    """The name of the command, as the command line understands it. Raises what a user would see."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("anchormoe-agent", list(arguments))
    name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
    command.make_context(name, rest, parent=context)
    return str(name)


@matrix
def test_containers_start_commands_that_exist(values: str) -> None:
    expected = {"agent": "run", "alarms": "alarms", "page": "page"}
    for _, pod in own_pods(values):
        [container] = pod["spec"]["containers"]
        assert command_of(container["args"]) == expected[container["name"]]


@matrix
def test_files_that_the_plant_names_are_mounted_and_volumes_exist(values: str) -> None:
    text = plant(values)
    for name, pod in own_pods(values):
        [container] = pod["spec"]["containers"]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert set(mounts.values()) <= {volume["name"] for volume in pod["spec"]["volumes"]}
        assert container["args"][2] in mounts
        writable = {volume["name"] for volume in pod["spec"]["volumes"] if "emptyDir" in volume}
        [cache] = [each["value"] for each in container["env"] if each["name"] == "NUMBA_CACHE_DIR"]
        assert mounts[str(PurePosixPath(cache).parent)] in writable
        assert mounts["/tmp"] in writable  # a path in a container
        for path in files_of(yaml.safe_load(text)) if text else ():
            assert any(PurePosixPath(place) in PurePosixPath(path).parents for place in mounts), (name, path)


def files_of(content: Any) -> list[str]:
    """Absolute, as seen from /etc/anchormoe."""
    named = [value for name, value in leaves(content) if re.search(r"(_file|\.file|\.users|\.bundle)$", name)]
    return [str(PurePosixPath("/etc/anchormoe") / name) for name in named]


@matrix
def test_a_stop_is_given_more_time_than_it_may_take(values: str) -> None:
    text = plant(values)
    written = (yaml.safe_load(text) if text else {}).get("checkpoint", {}).get("stop_deadline", "30s")
    for each in [*of_kind("StatefulSet", values), *of_kind("Deployment", values)]:
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == "agent":
            given_s = each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
            assert given_s > Duration.parse(written).seconds + 10


@matrix
def test_probes_ask_what_the_servers_answer(values: str) -> None:
    for name, pod in own_pods(values):
        [container] = pod["spec"]["containers"]
        paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
        if container["name"] == "page":
            assert set(paths.values()) == {"/"}
        else:
            assert paths == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}, name
        startup = container["startupProbe"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 300, "the first start compiles models"


def test_a_change_of_the_plant_restarts_the_pods() -> None:
    def checksums(*settings: str) -> set[str]:
        return {
            pod["metadata"]["annotations"]["checksum/plant"]
            for _, pod in pods("minimal", *settings)
            if "checksum/plant" in pod["metadata"].get("annotations", {})
        }

    assert checksums() == checksums('agent.podLabels={"a": "b"}')
    assert checksums().isdisjoint(checksums('plant.namespace="south-hall"'))


def instance_ids(values: str) -> list[str]:
    variables = [each for _, pod in own_pods(values) for each in pod["spec"]["containers"][0]["env"]]
    found = [each for each in variables if each["name"] == "ANCHORMOE_KAFKA_INSTANCE_ID"]
    return [each["valueFrom"]["fieldRef"]["fieldPath"] for each in found]


def test_pods_with_stable_names_are_static_members_and_others_are_not() -> None:
    """Pods of a Deployment get new names: each restart would leave a member behind that nobody is."""
    assert instance_ids("everything") == ["metadata.name"], "of agent, alarms and page only the agent"
    assert instance_ids("deployment") == []
    timeouts = yaml.safe_load(plant("minimal") or "")["source"]["timeouts"]
    assert timeouts == {"session": "45s", "rebalance": "60s"}
    assert "timeouts" not in yaml.safe_load(plant("deployment") or "")["source"]


def test_time_outs_of_the_plant_win_over_those_of_the_chart() -> None:
    text = plant("minimal", 'plant.source.timeouts={"session": "20s", "rebalance": "90s"}')
    assert yaml.safe_load(text or "")["source"]["timeouts"] == {"session": "20s", "rebalance": "90s"}


@pytest.mark.parametrize(
    ("values", "settings", "complaint"),
    [
        ("minimal", ['http.existingSecret=""'], "http.existingSecret: missing"),
        ("minimal", ['http.tls.existingSecret=""'], "tokens would travel in clear"),
        ("minimal", ['bundles.existingClaim=""'], "bundles: set either image or existingClaim"),
        ("minimal", ['bundles.image="x:1"'], "bundles: set either image or existingClaim"),
        ("minimal", ['existingConfigMap="mine"'], "existingConfigMap: there is a plant as well"),
        ("minimal", ['plant.http={"port": 80}'], "plant.http: the chart writes it"),
        ("minimal", ['kafka.bootstrap=""'], "kafka.bootstrap: missing"),
        ("minimal", ['plant.source.instance_id="a"'], "several agents must not share it"),
        ("minimal", ['plant.store={"kind": "memory"}'], "plant.store: several agents hand windows over"),
        ("minimal", ['plant.groups[0].model.bundle="models/pump"'], "plant.groups[0].model.bundle"),
        ("minimal", ['plant.checkpoint={"stop_deadline": "1m"}'], "45 is not more than checkpoint.stop_deadline (1m)"),
        ("minimal", ['plant.limits={"memory": "3GiB"}'], "2Gi is not more than the plant's limits.memory (3GiB)"),
        ("minimal", ["alarms.enabled=true"], "the plant has no section alarms"),
        ("everything", ["alarms.replicas=3"], "alarms.replicas: 3 workers for 2 consoles"),
        ("everything", ['http.usersKey=""'], "page.ingress: people who come from outside the cluster need names"),
        ("everything", ['page.ingress.tlsSecret=""'], "page.ingress.tlsSecret: missing"),
        ("everything", ['page.enabled=false'], "page.ingress: there is no page"),
        ("everything", ['page.httpRoute.parentRefs=[]'], "page.httpRoute.parentRefs: missing"),
        ("everything", ['bundles.image="bundles"'], "image bundles: has no fixed version"),
        ("everything", ["autoscaling.maxReplicas=13"], "autoscaling.maxReplicas: 13 replicas for 12 partitions"),
        ("everything", ["autoscaling.partitions=0"], "autoscaling.partitions: missing"),
        ("everything", ["autoscaling.minReplicas=7"], "autoscaling.minReplicas: more than maxReplicas"),
        ("everything", ["autoscaling.recordsPerSecondPerReplica=0"], "recordsPerSecondPerReplica: missing"),
        ("everything", ['autoscaling.prometheus.serverAddress=""'], "autoscaling.prometheus.serverAddress: missing"),
        ("existing-configmap", ['existingConfigMap=""'], "plant: missing"),
        ("alarms-only", ["autoscaling.enabled=true"], "autoscaling: there is no agent"),
    ],
)  # fmt: skip
def test_the_chart_refuses_what_would_not_work_and_says_why(values: str, settings: list[str], complaint: str) -> None:
    assert complaint in refusal(values, *settings)


@pytest.mark.parametrize("memory", ['"2Gi"', '"2000M"', "2147483648"])
def test_memory_may_be_written_as_kubernetes_takes_it(memory: str) -> None:
    [workload] = of_kind("StatefulSet", "minimal", f"agent.resources.limits.memory={memory}")
    assert workload["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"]


def test_every_problem_is_told_at_once() -> None:
    said = refusal("minimal", 'http.existingSecret=""', 'bundles.existingClaim=""')
    assert "http.existingSecret" in said
    assert "bundles:" in said


def ports(rule: dict[str, Any]) -> set[int]:
    return {each["port"] for each in rule["ports"]}


def test_pods_reach_what_they_need_and_nothing_else() -> None:
    policies = {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: each
        for each in of_kind("NetworkPolicy", "everything")
    }
    out = {name: set().union(*(ports(rule) for rule in each["spec"]["egress"])) for name, each in policies.items()}
    assert out == {"agent": {53, 9093, 9094, 6380}, "alarms": {53, 9093, 9094, 443}, "page": {53, 9093, 9094}}
    into = {name: set().union(*(ports(rule) for rule in each["spec"]["ingress"])) for name, each in policies.items()}
    assert into == {"agent": {8787}, "alarms": {8788}, "page": {8789}}
    assert all(each["spec"]["policyTypes"] == ["Ingress", "Egress"] for each in policies.values())
    assert all("from" in rule for each in policies.values() for rule in each["spec"]["ingress"])
    [deployed] = of_kind("NetworkPolicy", "deployment")
    assert set().union(*map(ports, deployed["spec"]["egress"])) == {53, 9092, 6380}, "from the plant's own addresses"


def test_a_registry_and_a_webhook_of_the_plant_are_reached() -> None:
    sinks = '[{"kind": "webhook", "url": "https://a.example/x"}]'
    [policy] = of_kind("NetworkPolicy", "deployment", f"plant.sinks={sinks}")
    assert 443 in set().union(*map(ports, policy["spec"]["egress"]))


def egress(values: str, *settings: str) -> dict[str, set[int]]:
    policies = of_kind("NetworkPolicy", values, *settings)
    return {
        each["metadata"]["labels"]["app.kubernetes.io/component"]: set().union(*map(ports, each["spec"]["egress"]))
        for each in policies
    }


def test_receivers_registries_and_clusters_at_unusual_ports_are_reached() -> None:
    assert 9443 in egress("everything", 'plant.alarms.webhooks[0].url="https://pager.example.org:9443/hook"')["alarms"]
    assert 80 in egress("everything", 'plant.alarms.webhooks[0].url="http://pager.example.org"')["alarms"]
    sinks = [
        {"kind": "webhook", "url": "http://a.example:8080/x:1/y?z=b:2"},
        {"kind": "kafka", "bootstrap": "out:9095", "topics": {"events": "e", "states": "s", "dead_letters": "d"}},
    ]
    assert egress("deployment", f"plant.sinks={json.dumps(sinks)}")["agent"] == {53, 9092, 9095, 6380, 443, 8080}
    registry = 'plant.records={"format": "avro", "registry": {"url": "http://registry"}}'
    found = egress("everything", registry)
    assert {name for name, those in found.items() if 80 in those} == {"agent", "page"}, "the page reads records again"


def test_servers_know_every_name_by_which_they_are_called() -> None:
    http = yaml.safe_load(plant("everything") or "")["http"]
    [test] = [pod for name, pod in pods("everything") if name.endswith("-test")]
    called = [re.sub(r"^https://|:\d+/.*$", "", url) for url in test["spec"]["containers"][0]["args"][1:]]
    assert len(called) == 3
    assert set(called) < set(http["allowed_hosts"])
    for monitor in of_kind("ServiceMonitor", "everything"):
        assert monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"] in http["allowed_hosts"]
    assert {"plant.example.org", "agents.example.org"} < set(http["allowed_hosts"])


def test_topics_are_created_before_the_agents_start() -> None:
    [job] = of_kind("Job", "everything")
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert "helm.sh/hook" in job["metadata"]["annotations"]
    assert re.findall(r"create --topic '(\w+)' --partitions (\d+)", container["args"][0]) == [
        ("monitors", "12"), ("pumps", "12"),
    ]  # fmt: skip
    assert "--config 'retention.ms=604800000'" in container["args"][0]


def test_another_name_of_the_release_is_in_every_name(tmp_path: Path) -> None:
    names = {each["metadata"]["name"] for each in rendered("everything", 'fullnameOverride="hall"')}
    assert all(name == "hall" or name.startswith("hall-") for name in names)


def test_every_value_has_its_default_and_its_place_in_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) - set(values) == {"plant", "global"}
    for name in ("agent", "alarms", "page", "autoscaling", "http", "networkPolicy", "alerts"):
        assert set(schema["properties"][name]["properties"]) == set(values[name]), name


PAGE = (ROOT / "docs" / "production.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_values_of_the_guide_are_rendered_and_valid(tmp_path: Path) -> None:
    written, autoscaling, _ = map(yaml.safe_load, blocks("yaml"))
    for name, values in (("values", written), ("scaled", written | autoscaling)):
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(values))
        linted = run_helm("lint", path)
        assert linted.returncode == 0, linted.stdout
        done = run_helm("template", path)
        assert done.returncode == 0, done.stderr
        objects = [each for each in yaml.safe_load_all(done.stdout) if each]
        assert [what for each in objects for what in problems(each, NEWEST)] == []
        assert ("ScaledObject" in {each["kind"] for each in objects}) == (name == "scaled")


def test_the_redis_of_the_guide_can_be_reached(tmp_path: Path) -> None:
    """Its address is in a secret, so the policy cannot have its port from there."""
    [port] = set(re.findall(r"rediss?://[^ ']+:(\d+)/", PAGE))
    path = tmp_path / "values.yaml"
    path.write_text(blocks("yaml")[0])
    objects = yaml.safe_load_all(run_helm("template", path).stdout)
    [policy] = [
        each
        for each in objects
        if each and each["kind"] == "NetworkPolicy" and each["metadata"]["name"] == "anchormoe-agent"
    ]
    assert int(port) in set().union(*map(ports, policy["spec"]["egress"]))


def test_the_guide_leaves_users_and_groups_to_openshift(tmp_path: Path) -> None:
    settings = dict(re.findall(r"`(podSecurityContext|networkPolicy\.extraEgress): ([^`]+)`", PAGE))
    assert set(settings) == {"podSecurityContext", "networkPolicy.extraEgress"}
    path = tmp_path / "values.yaml"
    policy = {"networkPolicy": {"extraEgress": yaml.safe_load(settings["networkPolicy.extraEgress"])}}
    context = {"podSecurityContext": yaml.safe_load(settings["podSecurityContext"])}
    path.write_text(yaml.safe_dump(yaml.safe_load(blocks("yaml")[0]) | context | policy))
    done = run_helm("template", path)
    objects = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert [what for each in objects for what in problems(each, NEWEST)] == []
    [workload] = [each for each in objects if each["kind"] == "StatefulSet"]
    assert set(workload["spec"]["template"]["spec"]["securityContext"]) == {"runAsNonRoot", "seccompProfile"}
    assert "5353" in done.stdout


def test_the_sizes_of_the_planner_fit_the_values_of_the_guide(tmp_path: Path) -> None:
    written = yaml.safe_load(blocks("yaml")[0])
    plant = written["plant"] | {"source": written["plant"]["source"] | {"bootstrap": "kafka:9092"}}
    plant["store"] = {"kind": "redis", "url": "redis://redis:6379/0"}
    plant["groups"][0]["model"]["bundle"] = str(ROOT / "configs" / "bundles" / "pump")
    (tmp_path / "plant.yaml").write_text(yaml.safe_dump(plant))
    planned = CliRunner().invoke(app, ["plan", str(tmp_path / "plant.yaml"), "--values"])
    assert planned.exit_code == 0, planned.stderr
    merged = tmp_path / "values.yaml"
    merged.write_text(yaml.safe_dump(yaml.safe_load(blocks("yaml")[0]) | yaml.safe_load(planned.stdout)))
    done = run_helm("template", merged)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_guide_name_what_is_there() -> None:
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert {line.split()[0] for line in commands} == {"anchormoe-agent", "helm", "kubectl"}
    named = {word for line in commands for word in line.split() if word.startswith("deploy/")}
    assert named == {str(CHART.relative_to(ROOT))}
    written, *_ = map(yaml.safe_load, blocks("yaml"))
    made = set(re.findall(r"create secret generic (\S+)", PAGE))
    assert made == {
        written["redis"]["existingSecret"], written["http"]["existingSecret"], written["http"]["tls"]["existingSecret"],
    }  # fmt: skip


def test_the_plain_manifests_are_those_of_the_chart() -> None:
    """`make manifests` renders on demand; nothing rendered is kept that could grow old."""
    target = (ROOT / "Makefile").read_text().partition("\nmanifests:")[2].partition("\n\n")[0]
    assert "helm template" in target
    assert str(CHART.relative_to(ROOT)) in target
    assert "--skip-tests" in target
    assert not list((ROOT / "deploy").rglob("*manifest*"))
