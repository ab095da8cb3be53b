"""What mkdocs calls while it makes the site.

Links that leave docs/ are mended: a page beside the code, as bench/README.md, becomes a page of the site, and
a link to any other file becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
BESIDE = {"bench.md": "bench/README.md"}
"""Pages of the site that lie elsewhere, as the site has them and as the project has them."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    for name, path in BESIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    uri = page.file.src_uri
    place = posixpath.dirname(BESIDE.get(uri, f"docs/{uri}"))
    parts = _FENCE.split(markdown)
    # Every second part is a block of code.
    parts[::2] = [_LINK.sub(lambda found: _mended(found, uri, place), part) for part in parts[::2]]
    return "".join(parts)


def on_post_page(output: str, **_: Any) -> str:
    # The theme gives its search dialog no name, which a screen reader would read out.
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def _mended(found: re.Match[str], uri: str, place: str) -> str:
    mark, text, link = found.groups()
    path, joint, anchor = link.partition("#")
    if not path or ":" in path:
        return found[0]
    target = posixpath.normpath(posixpath.join(place, path))
    of_site = {path: name for name, path in BESIDE.items()}.get(target)
    if of_site is None and target.startswith("docs/"):
        of_site = target.removeprefix("docs/")
    if of_site is None:
        return text
    return f"{mark}[{text}]({posixpath.relpath(of_site, posixpath.dirname(uri) or '.')}{joint}{anchor})"
