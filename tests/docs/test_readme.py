"""The README says what is there."""

import re
from pathlib import Path

import tidemark
from tidemark.language.pipeline import Pipeline
from tidemark.language.stream import Stream

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_pipeline_shown_is_the_example():
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert (ROOT / "examples/game.py").read_text().endswith(shown)


def test_every_word_of_the_language_exists_and_every_exported_one_is_told():
    table = README.split("The words of the language")[1].split("The command `tidemark`")[0]
    words = set(re.findall(r"`([a-z_]+)[`(]", table))
    source = set(Pipeline.source.__annotations__)
    known = {*tidemark.__all__, *source, *dir(Stream), "early", "late"}
    assert words <= known
    elsewhere = {"lit", "when", "col", "load_pipeline"}
    told = {word for word in tidemark.__all__ if word.islower()} - elsewhere
    assert told <= words


def test_sections_of_the_specification_that_code_cites_are_there():
    specification = (ROOT / "docs/semantics.md").read_text()
    sections = set(re.findall(r"^#+ (.*)$", specification, re.MULTILINE))
    for path in [*ROOT.glob("tidemark/**/*.py"), *ROOT.glob("tests/**/*.py")]:
        text = re.sub(r"\s+", " ", path.read_text())
        for cited in re.findall(r'docs/semantics\.md, "([^"]+?)[.,]?"', text):
            assert cited in sections, path
