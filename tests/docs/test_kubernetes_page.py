"""The manifests of kubernetes/ fit the schemas of Kubernetes, and name settings that exist.

The test needs no ``kubectl kustomize``: it merges a patch as Kubernetes does, with lists of
containers by their names.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tidemark.plan.physical import SERVICES
from tidemark.runtime.config import Config

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "kubernetes"
PAGE = (ROOT / "docs" / "how-to-kubernetes.md").read_text()
SETTINGS = {field.validation_alias for field in Config.model_fields.values()}


def loaded(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


(BASE,), (SCALED,) = (loaded(FOLDER / n / "kustomization.yaml") for n in ("base", "autoscaling"))
(PROCESS,) = loaded(FOLDER / "base/process.yaml")


def merged(base: Any, patch: Any) -> Any:
    if isinstance(base, dict) and isinstance(patch, dict):
        return {**base, **{name: merged(base.get(name), each) for name, each in patch.items()}}
    if isinstance(base, list) and all(isinstance(each, dict) for each in [*base, *patch]):
        of_base, of_patch = ({each["name"]: each for each in both} for both in (base, patch))
        return list(merged(of_base, of_patch).values())
    return patch


def manifests(folder: str, files: list[str]) -> Iterator[Any]:
    """Yield the resources of files as they are applied."""
    for file in files:
        for each in loaded(FOLDER / folder / file):
            if each["kind"] == "StatefulSet":
                name = each["metadata"]["name"]
                yield merged(each, {**PROCESS, "metadata": {"name": name}})
            else:
                yield each


APPLIED = [
    *manifests("base", BASE["resources"]),
    *manifests("autoscaling", SCALED["resources"][1:]),
]
PODS = {
    each["metadata"]["name"]: each["spec"]["template"]["spec"]
    for each in APPLIED
    if each["kind"] == "StatefulSet"
}


@pytest.mark.parametrize("manifest", APPLIED, ids=lambda m: f"{m['kind']}/{m['metadata']['name']}")
def test_each_manifest_fits_the_schema(manifest):
    kubernetes_validate.validate(manifest, "1.37", strict=True)


def test_a_wrong_field_does_not_fit():
    (wrong, *_) = (each for each in APPLIED if each["kind"] == "StatefulSet")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**wrong, "specs": {}}, "1.37", strict=True)


def test_there_is_a_stateful_set_of_each_service():
    assert {*PODS} == {*SERVICES, "sink", "monitor"}
    for name, pod in PODS.items():
        (service,) = pod["containers"]
        assert service["command"] == ["python", "-m", f"services.{name}"]
        assert (ROOT / f"services/{name}.py").exists()
    assert [path.name for path in sorted((FOLDER / "base").glob("*.yaml"))] == sorted(
        [*BASE["resources"], BASE["patches"][0]["path"], "kustomization.yaml"]
    )


def test_labels_select_the_pods_of_each_set():
    for each in APPLIED:
        if each["kind"] == "StatefulSet":
            labels = each["spec"]["template"]["metadata"]["labels"]
            assert each["spec"]["selector"]["matchLabels"] == labels
            assert labels["app.kubernetes.io/component"] == each["metadata"]["name"]


def test_probes_ask_paths_that_services_answer():
    health = (ROOT / "tidemark/runtime/service/health.py").read_text()
    (service,) = PROCESS["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = service[probe]["httpGet"]
        assert asked["path"] in health
        assert asked["port"] == service["ports"][0]["name"]


def test_each_setting_exists():
    (service,) = PROCESS["spec"]["template"]["spec"]["containers"]
    (map_,) = BASE["configMapGenerator"]
    literals = dict(each.split("=", 1) for each in map_["literals"])
    assert int(literals["TIDEMARK_HTTP_PORT"]) == service["ports"][0]["containerPort"]
    assert literals["TIDEMARK_STATE_DIR"] in {m["mountPath"] for m in service["volumeMounts"]}
    assert {*literals, *(each["name"] for each in service["env"])} <= SETTINGS
    assert set(re.findall(r"\bTIDEMARK_\w+", PAGE)) <= SETTINGS


def test_each_scaler_has_a_set_that_leaves_the_number_to_it():
    scaled = {
        each["spec"]["scaleTargetRef"]["name"]
        for each in APPLIED
        if each["kind"] == "HorizontalPodAutoscaler"
    }
    (patch,) = SCALED["patches"]
    assert scaled == set(patch["target"]["name"].split("|")) <= {*PODS}
    assert loaded(FOLDER / "autoscaling/replicas.yaml") == [
        [{"op": "remove", "path": "/spec/replicas"}]
    ]
    assert f"scale statefulset {' '.join(sorted(scaled))} --replicas 1\n" in PAGE
