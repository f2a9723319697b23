"""How a pipeline is found: by module, by file and by attribute."""

import sys

import pytest

from tidemark import (
    PipelineError,
    load_pipeline,
)
from tidemark.language import mistake


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("from tidemark import Pipeline\n" + text)


def test_a_pipeline_is_found_by_module_by_file_and_by_attribute(folder):
    write(folder / "jobs" / "one.py", "job = same = Pipeline('one')")
    write(folder / "two.py", "a = Pipeline('a')\nb = Pipeline('b')")
    assert load_pipeline("jobs.one").name == "one"
    assert load_pipeline("jobs/one.py") is load_pipeline("jobs.one:same")
    assert load_pipeline("two:b").name == "b"
    assert load_pipeline("two.py:a").name == "a"


def test_a_file_outside_the_working_directory_is_found_too(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "outside.py"
    write(elsewhere, "job = Pipeline('outside')")
    assert load_pipeline(str(elsewhere)).name == "outside"


def test_a_file_is_not_mistaken_for_another_module_of_its_name(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere / "same.py", "job = Pipeline('elsewhere')")
    write(elsewhere / "json.py", "job = Pipeline('elsewhere')")
    write(folder / "same.py", "job = Pipeline('here')")
    assert load_pipeline(str(elsewhere / "same.py")).name == "elsewhere"
    with pytest.raises(
        PipelineError, match=r"the name 'json' is that of .*; give the file another"
    ):
        load_pipeline(str(elsewhere / "json.py"))
    with pytest.raises(PipelineError, match=r"the name 'same' is that of .*elsewhere"):
        load_pipeline("same.py")


@pytest.mark.parametrize("path", ["q/one.py", "jobs/q/one.py", "json/one.py"])
def test_a_folder_is_not_mistaken_for_a_module_of_its_name(folder, path):
    write(folder / "q.py", "raise RuntimeError('it ran')")
    write(folder / "jobs" / "q.py", "raise RuntimeError('it ran')")
    write(folder / path, "job = Pipeline('one')")
    assert load_pipeline(f"{path}:job").name == load_pipeline(path).name == "one"


def test_a_package_beside_a_module_of_its_name_is_a_package(folder):
    write(folder / "q.py", "raise RuntimeError('it ran')")
    write(folder / "q" / "__init__.py", "")
    write(folder / "q" / "two.py", "from q import three\njob = Pipeline(three.name)")
    write(folder / "q" / "three.py", "name = 'three'")
    assert load_pipeline("q/two.py") is load_pipeline("q.two")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", "pipeline 'nowhere': no module 'nowhere' in"),
        ("jobs.nowhere", "no module 'jobs.nowhere' in"),
        ("", "pipeline '': not the name of a module; write it like examples.game"),
        ("..jobs", "pipeline '..jobs': not the name of a module"),
        ("jobs.", "pipeline 'jobs.': not the name of a module"),
        ("no\0where", r"pipeline 'no\\x00where': no module"),
        ("no\0where/one.py", r"pipeline 'no\\x00where/one.py': no such file in"),
        (":x", "pipeline '': not the name of a module"),
        ("nowhere.py", "pipeline 'nowhere.py': no such file in"),
        ("not-a-name.py", "'not-a-name' is not the name of a module"),
        ("none", "module 'none' defines 0 pipelines: none"),
        ("two", "module 'two' defines 2 pipelines: a, b; choose one as two:NAME"),
        ("two:c", "module 'two' has no 'c'; its pipelines: a, b"),
        ("two:Pipeline", "two:Pipeline is a type, not a Pipeline"),
    ],
)
def test_what_is_not_found_is_named(folder, path, message):
    write(folder / "none.py", "")
    write(folder / "not-a-name.py", "")
    write(folder / "two.py", "a = Pipeline('a')\nb = Pipeline('b')")
    with pytest.raises(PipelineError, match=message.replace("(", "\\(")):
        load_pipeline(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\nx = (1", "job.py:3: SyntaxError: '(' was never closed"),
        ("import not_here", "job.py:2: ModuleNotFoundError: No module named 'not_here'"),
        ("job = Pipelin('x')", "job.py:2: NameError: name 'Pipelin' is not defined"),
        (
            "from tidemark import tumbling\n\ntumbling(siez='1m')",
            "job.py:4: TypeError: tumbling() got an unexpected keyword argument 'siez'",
        ),
        (
            "from tidemark import tumbling\ndef window():\n    return tumbling('5x')\nwindow()",
            "job.py:4: tumbling(size): '5x' is not a duration",
        ),
        ("import helping\nhelping.size('x')", "helping.py:4: ValueError: could not convert string"),
        ("import json\njson.loads('{')", "job.py:3: json.decoder.JSONDecodeError: Expecting"),
    ],
)
def test_a_mistake_in_a_module_is_named_with_its_file_and_line(folder, text, message):  # D8
    write(folder / "helping.py", "\ndef size(text):\n    return float(text)")
    write(folder / "job.py", text)
    with pytest.raises(PipelineError) as caught:
        load_pipeline("job.py")
    assert str(caught.value).startswith(message)


def test_a_mistake_in_an_installed_pipeline_is_named_too(folder, monkeypatch):
    monkeypatch.setattr(mistake, "_INSTALLED", {folder})
    write(folder / "job.py", "Pipeline('a b')")
    with pytest.raises(PipelineError, match=r"job.py:2: Pipeline\(name\): 'a b' is not a legal"):
        load_pipeline("job")


def test_a_source_knows_file_and_line_of_its_call(folder):
    source = (
        "from tidemark import bounded, count, tumbling\n"
        "job = Pipeline('job')\n"
        "rows = job.source(\n"
        "    'in', schema={'k': str, 'at': int}, event_time='at', watermark=bounded('0s'))\n"
        "rows.key_by('k').window(tumbling('1s')).aggregate(n=count()).to('out')"
    )
    write(folder / "declared.py", source)
    (plan,) = load_pipeline("declared.py").plan().sources
    assert plan.declared_at == "declared.py:4"
