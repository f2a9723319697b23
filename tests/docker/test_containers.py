"""The scenarios of tests/support in containers, word for word, and trial b60."""

import pytest

from tests.docker.support.compose import run
from tests.kafka.support.stack import wait_until
from tests.support.scenarios import (
    module,
    move,
    services_come_back_with_what_they_had,
    windows_close_as_time_goes_on,
)
from tidemark.errors import InfrastructureError
from tidemark.testing import OnBroker
from tidemark.testing.containers import InContainers, Kafka


@pytest.fixture(scope="module")
def kafka(engine):
    with Kafka() as running:
        yield running


@pytest.fixture
def pipeline(tmp_path):
    """A module of the test's own, its name that of no other."""
    name = tmp_path.name.replace("_", "-")
    file = tmp_path / f"{tmp_path.name}_steps.py"
    file.write_text(module(name, "1h"))
    return str(file)


@pytest.mark.parametrize(
    "scenario", [windows_close_as_time_goes_on, services_come_back_with_what_they_had]
)
def test_scenarios_hold_in_containers(kafka, image, pipeline, scenario):
    with InContainers(pipeline, kafka, image) as run:
        scenario(run)
        assert "started" in run.log("ingest")
        assert "reads by the native library" in run.log("ingest")


def test_b60_processes_of_this_machine_reach_a_broker_in_a_container(kafka, pipeline):
    with OnBroker(pipeline, kafka.address) as run:
        windows_close_as_time_goes_on(run)


def test_b60_an_address_that_is_not_for_containers_is_named(kafka, image, pipeline):
    """What is at the localhost of this machine is not at that of a container."""
    wrong = f"localhost:{kafka.address.rpartition(':')[2]}"
    settings = {"KAFKA_BOOTSTRAP_SERVERS": wrong}
    with InContainers(pipeline, kafka, image, settings=settings) as run:
        said = f"waiting for a broker at {wrong}: "
        wait_until(lambda: said in run.log("ingest"), "the address")
        assert "refused" in run.log("ingest")


def test_a_service_that_ends_in_its_container_is_told_of_with_its_last_words(
    kafka, image, pipeline
):
    settings = {"TIDEMARK_GUARANTEE": "perhaps-once"}
    with InContainers(pipeline, kafka, image, settings=settings) as run:
        run.send(run.plan.named_topics[0], move("a", 1_000))
        with pytest.raises(InfrastructureError, match=r"has ended: .*TIDEMARK_GUARANTEE"):
            run.expect_panes("pops")


def test_a_folder_at_pipelines_hides_no_module_of_the_image(image, tmp_path):
    shop = "from tidemark import Pipeline; shop = Pipeline('shop')"
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "services").mkdir()
    (tmp_path / "services" / "__init__.py").write_text("raise SystemExit('not the services')")
    tmp_path.chmod(0o755)
    asked = "import services.ingest, examples.game; from tidemark import load_pipeline as load; "
    asked += "print(load('shop').name)"
    mounted = ("--volume", f"{tmp_path}:/pipelines:ro", image)
    assert run("docker", "run", "--rm", *mounted, "python", "-c", asked) == "shop\n"
