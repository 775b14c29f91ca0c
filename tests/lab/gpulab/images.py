# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node images: Debian with systemd, and look-alikes of other distributions based on it."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import typing as t
from pathlib import Path

from .places import BUILDING, HERE, LABNS, LabError, alone, call, fingerprint, podman, say, succeeds

PACKAGES = (
    "ca-certificates dbus gnupg iproute2 kmod openssh-server pciutils procps psmisc python3 python3-apt python3-debian"
    " sudo systemd systemd-sysv"
).split()
COMPONENTS = "main,contrib,non-free,non-free-firmware"
RECIPES = HERE / "images"
DEBIAN_RECIPES = tuple(RECIPES / name for name in ("debian.sh", "bytecode/sitecustomize.py", "gpufleet-lab.service"))
LABEL = "gpufleet.lab"


class Image(t.NamedTuple):
    """Built by mmdebstrap from ``suite``, or by ``recipe`` in a container of ``base``."""

    suite: t.Optional[str] = None
    packages: t.Sequence[str] = ()
    base: t.Optional[str] = None
    recipe: t.Sequence[str] = ()


IMAGES: t.Mapping[str, Image] = {
    "bookworm": Image(suite="bookworm"),
    "trixie": Image(suite="trixie"),
    "ubuntu2204": Image(base="bookworm", recipe=["ubuntu.sh", "22.04", "jammy", "Jammy Jellyfish"]),
    "ubuntu2404": Image(base="trixie", recipe=["ubuntu.sh", "24.04", "noble", "Noble Numbat"]),
    # Debian with dnf and rpm: the base of the Rocky look-alike, and the image that builds the rpm repositories.
    "rpm": Image(
        suite="bookworm",
        packages=[
            "dkms",
            "dnf",
            "dnf-plugins-core",
            "python3-dnf",
            "rpm",
            "createrepo-c",
            "python3-selinux",
            "python3-rpm",
        ],
    ),
    "rocky9": Image(base="rpm", recipe=["rocky.sh", "9.6", "Blue Onyx"]),
}


def reference(name: str) -> str:
    return "localhost/gpufleet-node:" + name


def needs(name: str) -> str:
    """A fingerprint of all inputs of an image."""
    image = IMAGES[name]
    if image.base:
        return fingerprint(repr(image), RECIPES / image.recipe[0], needs(image.base))
    return fingerprint(repr(image), " ".join(PACKAGES), *DEBIAN_RECIPES)


def build(name: str) -> str:
    """Build an image if it is missing or out of date, and return its reference."""
    if name not in IMAGES:
        raise LabError("unknown image: %s. Known images: %s" % (name, ", ".join(IMAGES)))
    image, wanted = IMAGES[name], needs(name)
    with alone("image-" + name):
        found = ""
        if succeeds(LABNS, "podman", "image", "exists", reference(name)):
            found = podman("image", "inspect", "--format", '{{index .Labels "%s"}}' % LABEL, reference(name)).strip()
        if found == wanted:
            return reference(name)
        say("building the node image %s (about half a minute)" % name)
        BUILDING.mkdir(parents=True, exist_ok=True)
        if image.suite:
            bootstrap(name, image, wanted)
        else:
            derive(name, image, wanted)
    return reference(name)


def store(*command: t.Union[str, Path]) -> None:
    """Add an image with a podman command, and remove the one that it replaces."""
    with alone("images"):  # an image that another build is adding has no name yet, and would be removed too
        podman(*command)
        succeeds(LABNS, "podman", "image", "prune", "--force")  # fails if a container uses an old image


def settings(wanted: str) -> t.Iterator[str]:
    for change in ('CMD ["/sbin/init"]', "STOPSIGNAL SIGRTMIN+3", "LABEL %s=%s" % (LABEL, wanted)):
        yield from ("--change", change)


def bootstrap(name: str, image: Image, wanted: str) -> None:
    """Build an image of Debian. The package lists are kept, because apt considers an empty directory up to date."""
    work = Path(tempfile.mkdtemp(prefix="image-", dir=BUILDING))
    try:
        archive = work / "root.tar"
        mmdebstrap(t.cast(str, image.suite), [*PACKAGES, *image.packages], [RECIPES / "debian.sh"], archive)
        store("import", "--quiet", *settings(wanted), archive, reference(name))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def mmdebstrap(suite: str, packages: t.Sequence[str], recipes: t.Sequence[Path], target: Path) -> None:
    """Build a root directory or its archive. In its own mount namespace, so that an interrupt leaves nothing mounted."""
    call(
        *("unshare", "--mount", "--propagation", "private"),
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--skip=cleanup/apt/lists"),
        *("--components=" + COMPONENTS, "--include=" + ",".join(packages)),
        *('--customize-hook=sh %s "$1"' % shlex.quote(str(recipe)) for recipe in recipes),
        *(suite, target),
        *filter(None, [os.environ.get("GPUFLEET_DEBIAN_MIRROR")]),
    )


def derive(name: str, image: Image, wanted: str) -> None:
    container = "gpufleet-image-" + name
    base = build(t.cast(str, image.base))
    podman("rm", "--force", "--time", "1", "--ignore", container)
    try:
        podman(
            *("run", "--name", container, "--privileged", "--volume", "%s:/recipes:ro" % RECIPES, base),
            *("sh", "-e", "/recipes/" + image.recipe[0], *image.recipe[1:]),
        )
        store("commit", "--quiet", *settings(wanted), container, reference(name))
    finally:
        podman("rm", "--force", "--time", "1", "--ignore", container)
