"""The README says what is there."""

import re
import subprocess
import sys
from pathlib import Path

import tidemark
from examples.game import game
from tidemark.language.pipeline import Pipeline
from tidemark.language.stream import Stream

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_pipeline_shown_is_the_example():
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert (ROOT / "examples/game.py").read_text().endswith(shown)


def test_the_session_prints_what_is_shown_and_a_notebook_gets_the_same(shown_and_printed):
    (session,) = re.findall(r"```\n(\$ cat pops.*?)```", README, re.DOTALL)
    (call,) = re.findall(r"```\n>>> (.*?)\n```", README)
    lines, printed = shown_and_printed("readme", "from examples.game import game", session)
    assert printed == lines

    results = eval(call, {"game": game})  # the file is in the current folder
    assert results["pops"].to_list() == [2, 1]
    assert f'"pops":{results["pops"][0]},"score":{results["score"][0]}}}' in lines[0]


def test_the_events_of_an_example_go_through_it():
    shown = r"^python -m (examples\.events \w+) \| tidemark (try .*)$"
    ((events, trial),) = re.findall(shown, README, re.MULTILINE)
    made = subprocess.run(
        [sys.executable, "-m", *events.split()], stdout=subprocess.PIPE, check=True
    )
    command = [sys.executable, "-c", "from tidemark.commands.cli import main; main()"]
    done = subprocess.run(
        [*command, *trial.split()], input=made.stdout, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b'{"topic":"sensors.') > 10


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
