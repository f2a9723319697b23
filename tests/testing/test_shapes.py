"""Nine shapes of data are read in process, without a workaround."""

from tests.support.registry import running_registry
from tests.support.shapes.outcomes import panes, wrong_letters
from tests.support.shapes.pipeline import SHAPES, build
from tests.support.shapes.records import shapes
from tidemark.testing import InProcess


def test_every_shape_gives_its_panes_and_its_dead_letters(monkeypatch):
    with running_registry() as registry:
        expected = shapes(registry)
        monkeypatch.setenv("TIDEMARK_SCHEMA_REGISTRY", registry.url)
        with InProcess(build("shapes")) as running:
            for name, shape in expected.items():
                running.send(f"shapes-{name}", *filter(None, shape.values))
            letters = running.dead_letters()
            for name in SHAPES:
                assert panes(running.panes(name)) == expected[name].panes, name
                assert wrong_letters(expected[name], letters, f"shapes-{name}") == [], name
                assert running.late(name) == [], name
