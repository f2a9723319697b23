"""The site: every page is in its navigation, every public name in its reference, home runs."""

import pkgutil
import re
import sys
from pathlib import Path

import tidemark
from tests.docs.sessions import matches, run_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAVIGATION = re.findall(r"^ +- ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
REFERENCE = re.findall(r"^::: (\S+)$", (DOCS / "reference.md").read_text(), re.MULTILINE)


def test_each_page_is_in_the_navigation_once():
    pages = [path.name for path in DOCS.glob("*.md")]
    inside = [page for page in NAVIGATION if (DOCS / page).is_file()]
    assert sorted(inside) == sorted(pages)


def test_each_public_name_is_in_the_reference():
    """The reference names where a thing is defined, so that a moved one is an error here."""
    shown = [pkgutil.resolve_name(path) for path in REFERENCE]
    of_polars = {"col", "lit", "when"}
    missing = {
        name
        for name in tidemark.__all__
        if name not in of_polars and not any(getattr(tidemark, name) is each for each in shown)
    }
    assert missing == set()


def test_the_commands_of_the_home_page_print_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    ((command, shown, printed),) = run_page((DOCS / "index.md").read_text(), ["shop"])
    assert matches(shown, printed), f"$ {command}\n" + "\n".join(printed)
    sys.modules.pop("shop", None)


def test_pictures_have_a_text_and_are_used():
    concepts = (DOCS / "concepts.md").read_text()
    used = dict(re.findall(r"!\[([^\]]+)\]\(images/([\w-]+\.svg)\)", concepts))
    assert {path.name for path in (DOCS / "images").glob("*.svg")} == set(used.values())
    for name in used.values():
        assert "<desc" in (DOCS / "images" / name).read_text()
