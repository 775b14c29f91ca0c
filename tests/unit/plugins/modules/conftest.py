# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.node.plugins.module_utils._backend import select
from ansible_collections.gpufleet.node.plugins.module_utils._module.common import record
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import (
    apt,
    dkms,
    dnf,
    manager,
)
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages import node_packages as packages
from ansible_collections.gpufleet.node.plugins.modules import node_packages, nvidia_mig
from ansible_collections.gpufleet.node.tests.unit.plugins.module_utils._backend.fake import FakeBackend
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.module_support import run
from ansible_collections.gpufleet.node.tests.unit.plugins.modules.node_packages_support import DRIVER, Debian


@pytest.fixture(autouse=True)
def _as_on_a_node(monkeypatch):
    """The filters' tests load controller code into this process, and a module's warnings would go to its display."""
    try:
        from ansible.module_utils import _internal
    except ImportError:  # before ansible-core 2.19 there is no such display
        return
    monkeypatch.setattr(_internal, "is_controller", False, raising=False)


@pytest.fixture(name="node")
def fixture_node(tmp_path, monkeypatch):
    """Runs the module nvidia_mig on GPUs: ``node(gpu, ...)`` gives a driver, ``driver.run(...)`` a result."""

    class Node(FakeBackend):
        def opened(self):
            self.open()
            return self

        def run(self, *entries, check=False, diff=False, **options):
            options.setdefault("lock_path", str(tmp_path / "lock"))
            if entries:
                options["layout"] = list(entries)
            monkeypatch.setattr(select, "open_backend", lambda _choice: self.opened())
            return run(nvidia_mig.main, check=check, diff=diff, **options)

    return Node


@pytest.fixture(name="debian")
def fixture_debian(tmp_path, monkeypatch):
    """The commands and files of the module node_packages."""
    fake = Debian()
    monkeypatch.setattr(
        "ansible.module_utils.basic.AnsibleModule.run_command", lambda _module, *given, **more: fake(*given, **more)
    )
    monkeypatch.setattr(record, "PATH", str(tmp_path / "facts.d" / "gpufleet.fact"))
    monkeypatch.setattr(record, "LOCK", str(tmp_path / "run" / "record.lock"))
    monkeypatch.setattr(packages, "LOCK", str(tmp_path / "run" / "packages.lock"))
    monkeypatch.setattr(apt, "PREFERENCES", str(tmp_path / "preferences.d"))
    monkeypatch.setattr(apt, "SOURCES", str(tmp_path / "sources.list"))
    monkeypatch.setattr(apt, "PAUSE", 0.0)
    monkeypatch.setattr(manager, "PAUSE", 0.0)
    monkeypatch.setattr(dkms, "STATE", str(tmp_path / "dkms"))
    monkeypatch.setattr(dnf, "LOCKS", str(tmp_path / "versionlock.list"))
    monkeypatch.setattr(dnf, "PLUGIN", (str(tmp_path), "python3-dnf-plugin-versionlock"))
    fake.folder = tmp_path
    return fake


@pytest.fixture(name="driver")
def fixture_driver(debian):
    """Runs the module node_packages as the role nvidia_driver does."""
    return lambda check=False, **more: run(node_packages.main, check, **{"manager": "apt", **DRIVER, **more})
