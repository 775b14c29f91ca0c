# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the docsite: the documents of docs/, the README of each role, and the reference of modules, filters and roles.

Usage: scripts/docsite.py [DIRECTORY]    without a directory: .cache/docsite

docs/README.md is its first page, and the links under each of its headings are a part of the navigation. A warning is a
failure. Links to files that are not on the site lead to the repository. Nothing is downloaded.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

import yaml
from build import LINK

TOP = Path(__file__).resolve().parent.parent
INTERNAL_ROLES = {"gpu_chart"}
FIRST = "docs/README.md"
PICTURES = (".svg", ".png")
# What is added to the configuration of antsibull-docs. References to Ansible's own documentation need the network.
CONFIGURATION = """
extensions = ["sphinx_antsibull_ext", "myst_parser"]
myst_heading_anchors = 4
nitpick_ignore_regex = [
    ("std:ref", "ansible_collections[.]ansible[.].*|ansible_configuration_settings|common_return_values"),
]
html_theme_options = {"page_width": "1200px", "sidebar_width": "260px", "fixed_sidebar": True}
"""


def pages() -> dict[str, str]:
    """The site's pages: their paths in the repository, and on the site, without the suffix."""
    found = {FIRST: "index", "README.md": "overview", "awx/README.md": "awx"}
    found.update({"docs/" + path.name: path.stem for path in TOP.glob("docs/*.md") if path.name != "README.md"})
    roles = [path.parent.name for path in TOP.glob("roles/*/README.md")]
    found.update({"roles/%s/README.md" % role: "roles/" + role for role in roles if role not in INTERNAL_ROLES})
    return found


def target(document: str, link: str) -> str:
    """The path in the repository to which a link of a document leads: of a directory, its README."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(document), link))
    return path + "/README.md" if (TOP / path / "README.md").is_file() else path


def convert(text: str, document: str, known: t.Mapping[str, str], repository: str) -> str:
    """The text of a document with links between the site's pages, and to the repository."""

    def converted(link: re.Match[str]) -> str:
        path, heading = target(document, link[1]), link[2] or ""
        if path in known:
            here = posixpath.dirname(known[document]) or "."
            return "](%s.md%s)" % (posixpath.relpath(known[path], here), heading)
        if path.endswith(PICTURES):
            return "](%s)" % posixpath.basename(path)
        return "](%s/blob/main/%s%s)" % (repository, path, heading)

    return LINK.sub(converted, text)


def navigation(text: str, known: t.Mapping[str, str]) -> str:
    """A table of contents for each heading of the first page, with the pages that are linked under it."""
    parts = ["```{toctree}\n:hidden:\n\noverview\n```\n"]
    for title, body in re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", text):
        linked = [target(FIRST, link) for link, _heading in LINK.findall(body)]
        entries = [known[path] for path in dict.fromkeys(linked) if path in known]
        entries += ["reference/index"] if title == "Reference" else []
        if entries:
            parts.append("```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (title, "\n".join(entries)))
    return "\n" + "\n".join(parts)


def write_pages(source: Path, repository: str) -> None:
    known = pages()
    for document, page in known.items():
        text = (TOP / document).read_text()
        path = source / (page + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        extra = navigation(text, known) if document == FIRST else ""
        path.write_text(convert(text, document, known, repository) + extra)
    for picture in TOP.glob("docs/*"):
        if picture.suffix in PICTURES:
            shutil.copy(picture, source)


def write_reference(source: Path, name: str) -> None:
    """The reference of what users call. antsibull-docs also writes pages of internal plugins and roles."""
    folder = source / "reference"
    folder.mkdir(mode=0o755)
    options = ["--use-current", "--squash-hierarchy", "--fail-on-error", "--no-add-antsibull-docs-version"]
    run("antsibull-docs", "collection", *options, "--dest-dir", folder, name)
    internal = {"%s_role" % role for role in INTERNAL_ROLES}
    for path in TOP.glob("plugins/modules/*.py"):
        if "\nshort_description: Internal to " in path.read_text():
            internal.add("%s_module" % path.stem)
    for page in internal:
        (folder / (page + ".rst")).unlink()
    # In the index, a plugin is NAME#KIND, and in its hidden table of contents NAME_KIND.
    index = folder / "index.rst"
    entry = re.compile(r"(?:[`<.]|^ +)(\w+)[#_](module|role)\b")
    lines = [(line, entry.search(line)) for line in index.read_text().splitlines(keepends=True)]
    text = "".join(line for line, found in lines if not found or "_".join(found.groups()) not in internal)
    title = "Modules, filters and roles"
    index.write_text(re.sub(r"(?mi)^%s\n=+$" % re.escape(name), title + "\n" + "=" * len(title), text, count=1))


def run(program: str, *arguments: str | Path) -> None:
    command = [Path(sys.executable).parent / program, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(done.stdout.decode())


def main(directory: Path) -> None:
    galaxy = yaml.safe_load((TOP / "galaxy.yml").read_text())
    name = "%(namespace)s.%(name)s" % galaxy
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        options = ["--use-current", "--squash-hierarchy", "--fail-on-error", "--sphinx-theme", "alabaster"]
        options += ["--project", name, "--title", name, "--copyright", galaxy["authors"][0]]
        run("antsibull-docs", "sphinx-init", *options, "--dest-dir", work, name)
        with (work / "conf.py").open("a") as file:
            file.write(CONFIGURATION)
        source = work / "source"
        source.mkdir()
        write_pages(source, galaxy["repository"])
        write_reference(source, name)
        html = work / "html"
        run("sphinx-build", "-b", "html", "-W", "--keep-going", "-q", "-c", work, "-d", work / "doctrees", source, html)
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(html, directory)
    print(directory / "index.html")


if __name__ == "__main__":
    main(Path(*sys.argv[1:2]) if sys.argv[1:] else TOP / ".cache" / "docsite")
