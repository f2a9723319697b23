"""The pipelines of docs/gallery.md are those of examples/, and print what the page shows."""

import re
from pathlib import Path

import pytest

from tests.docs.sessions import commands, matches, printed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gallery.md").read_text()
SECTIONS = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
IN_GALLERY = {path.name for path in (ROOT / "examples/gallery").glob("*.py")} - {"__init__.py"}


@pytest.mark.parametrize(("title", "text"), SECTIONS)
def test_a_pipeline_prints_what_the_page_shows(title, text, monkeypatch):
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    (session,) = re.findall(r"^```console\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ((command, shown),) = commands(session)
    (module,) = re.findall(r"examples/\S+\.py", command)
    assert (ROOT / module).read_text().partition('"""\n\n')[2] == code, title
    found = printed(command)
    assert matches(shown, found), "\n".join(found)


def test_the_page_has_all_pipelines_of_the_gallery_and_a_line_for_each():
    assert len(SECTIONS) == 8
    assert {f"{name}.py" for name in re.findall(r"examples/gallery/(\w+)\.py", PAGE)} >= IN_GALLERY
    listed = re.findall(r"^\| \[(.*?)\]\(#", PAGE, re.MULTILINE)
    assert listed == [title for title, _ in SECTIONS]
