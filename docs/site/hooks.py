"""What mkdocs cannot do by itself: pages of the repository outside docs/, and the decisions' list.

mkdocs loads this file (mkdocs.yml); it is no module of the package.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
OUTSIDE = ("CONTRIBUTING.md", "bench/README.md")
"""Pages beside docs/ to which pages link."""


def on_config(config: Any) -> Any:
    """Name each decision in the navigation."""
    decisions = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    pages = ["decisions/README.md", *(f"decisions/{name}" for name in decisions)]
    for section in config["nav"]:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict) and "Decisions" in entry:
                entry["Decisions"] = pages
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages outside docs/, with links as they are inside the site."""
    for name in OUTSIDE:
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_inside(text)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links that leave docs/ to the pages of the site."""
    up = "../" * page.file.src_uri.count("/")
    for name in OUTSIDE:
        markdown = markdown.replace(f"](../{up}{name}", f"]({up}{name}")
    return markdown


def _inside(text: str) -> str:
    """Return a page of the repository's root with its links into docs/ as links in the site."""
    return re.sub(r"\]\(((?:\.\./)?)docs/", r"](\1", text)
