#!/usr/bin/python
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: node_packages
short_description: Internal to the collection's roles, install packages of one version, hold and remove them
version_added: 0.9.0
description:
  - Installs packages with apt or dnf so that all of them have one version, holds them at it, and records what it installed
    and held, so that O(state=absent) removes and releases that and nothing else.
  - Selects the version. O(version) if it is given. Otherwise an installed version of O(branch) is kept, unless O(upgrade=true).
    Otherwise the newest version of O(branch) in which all packages are available. Without O(version) and O(branch) the packages
    are only installed, at any version, and are neither pinned nor held.
  - Warns if O(version) or O(branch) is older than what is installed, also in check mode.
  - If O(repository) has packages of the family, versions that other package sources offer do not count.
  - With apt, pins the version in C(/etc/apt/preferences.d/gpufleet-ROLE) before it installs. With O(hold),
    this is the exact version, otherwise the O(branch), and without a O(branch) there is no such file. With dnf, enables
    O(stream), and prefers O(repository) in the transaction, also for dependencies.
  - Holds with C(dpkg --set-selections), or with lines in the file of dnf's plugin C(versionlock), which is installed if it is
    missing.
  - Foreign holds and locks are kept. If they block the version, the module fails and names them.
  - Fails before it changes a package if the installation would remove packages that are neither of O(family) nor recorded.
  - Configures half-installed packages first (C(dpkg --configure)), unless another package manager is installing them at that
    moment.
  - Refreshes the package lists only if something has to be installed or O(repository.added). If the role's own source cannot be
    read, or is not signed with the given key, the module fails, and removes O(repository.file) if it was added in this run.
    Another source that cannot be read is a warning, unless apt itself fails.
  - Records the packages before it installs them and again afterwards, so that an interrupted run can be undone. Concurrent
    runs wait for each other.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - Does not refresh the package lists. If they do not exist yet, RV(version) may be V(null), and RV(msg) explains
        why. Otherwise fails if the installation would, because both start with the same simulation. It ignores holds;
        then those of others that the installation would break are an error.
  diff_mode:
    support: full
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  role:
    description:
      - The role that uses the module, without the collection's name. Key of its entry in the record, part of file names, and the
        prefix of the variables that messages name, such as C(ROLE_version) and C(ROLE_repository_key).
    type: str
    required: true
  state:
    description:
      - V(present) installs O(packages).
      - V(absent) removes the packages that the role installed according to its record, except those that other packages
        need, releases its holds, and removes its pin. The entry in the record stays for the role to remove. If somebody
        else holds one of the packages with apt, the module fails and changes nothing.
      - V(verified) only reads. RV(problems) are how the packages differ from O(packages), and RV(obstacles) why
        O(state=present) would fail.
    type: str
    choices: [present, absent, verified]
    default: present
  manager:
    description:
      - The package manager. V(auto) is apt if C(/usr/bin/apt-get) exists, and dnf otherwise.
    type: str
    choices: [auto, apt, dnf]
    default: auto
  packages:
    description:
      - Names of the packages. With dnf, a name may include version, release and architecture, as in
        V(kernel-devel-5.14.0-503.el9.x86_64).
      - Required if O(state=present) or O(state=verified).
    type: list
    elements: str
    default: []
  version:
    description:
      - The version that all packages must have. With a hyphen, such as V(1.20.1-1), it is the whole version without epoch.
        Without, such as V(580.126.20), it is the part before the packaging revision.
    type: str
    default: ""
  branch:
    description:
      - The first number of the version, such as V(580).
    type: str
    default: ""
  upgrade:
    description:
      - Whether to replace an installed version with the newest of O(branch).
    type: bool
    default: false
  hold:
    description:
      - Whether to hold the packages at their version. Needs O(version) or O(branch).
      - With V(false), packages that the role held are released.
    type: bool
    default: true
  family:
    description:
      - Patterns of package names that belong together, including those that are installed as dependencies. Members that
        have the common version are pinned and held, and members that were installed with O(packages) are removed with
        them.
      - The last pattern that matches a name applies. A pattern with an exclamation mark excludes.
      - O(packages) by default.
    type: list
    elements: str
    default: []
  independent:
    description:
      - Members of the family that have their own versions.
    type: list
    elements: str
    default: []
  optional_packages:
    description:
      - Packages to install with the others if they are offered and their dependencies can be satisfied.
    type: list
    elements: str
    default: []
  kernel_packages:
    description:
      - Those of O(packages) that follow new kernels. They are upgraded only if the version may change, and all such packages
        of Ubuntu's are held.
    type: list
    elements: str
    default: []
  stream:
    description:
      - With dnf, the stream of a module to enable before packages are installed, such as V(nvidia-driver:580-open).
    type: str
    default: ""
  stream_optional:
    description:
      - Whether repositories may lack O(stream).
    type: bool
    default: false
  headers:
    description:
      - The one of O(packages) that has the running kernel's headers. If no package source offers it, the error requests
        a kernel upgrade.
    type: str
    default: ""
  dkms:
    description:
      - Whether DKMS builds the kernel module. With dnf, whose packages do not fail if it cannot, DKMS is queried, and the module
        is built for the running kernel if it is missing.
    type: bool
    default: false
  minimum_version:
    description:
      - The lowest version to install.
    type: str
    default: ""
  minimum_for:
    description:
      - The reason for O(minimum_version), for the error.
    type: str
    default: ""
  repository:
    description:
      - The role's own package source.
    type: dict
    default: {}
    suboptions:
      url:
        description:
          - Its URL, as the package manager prints it.
        type: str
        default: ""
      file:
        description:
          - The file that declares it.
        type: path
      added:
        description:
          - Whether that file was written in this run. In check mode this means that the package manager has not read
            the source.
        type: bool
        default: false
      key:
        description:
          - The file on the node with the key that signs it.
        type: path
  lock_timeout:
    description:
      - Seconds to wait for another package manager.
    type: int
    default: 600
"""

EXAMPLES = r"""
- name: Install the driver
  gpufleet.node.node_packages:
    role: nvidia_driver
    packages: [nvidia-kernel-open-dkms, nvidia-driver-cuda, nvidia-persistenced]
    branch: "580"
    family: ["*nvidia*", "libcuda*", "libnv*", "!*container*", "!linux-*"]
    independent: [nvidia-persistenced]
    dkms: true
    repository:
      url: https://developer.download.nvidia.com/compute/cuda/repos/debian12/x86_64/
      file: /etc/apt/sources.list.d/gpufleet-nvidia-driver.sources
      added: "{{ source is changed }}"

- name: Install the container toolkit
  gpufleet.node.node_packages:
    role: nvidia_container_toolkit
    packages: [nvidia-container-toolkit, nvidia-container-toolkit-base, libnvidia-container-tools, libnvidia-container1]
    version: 1.20.1-1

- name: Install containerd, at any version
  gpufleet.node.node_packages:
    role: nvidia_container_toolkit
    packages: [containerd, runc]

- name: Remove what the role installed, and release what it held
  gpufleet.node.node_packages:
    role: nvidia_container_toolkit
    state: absent
"""

RETURN = r"""
version:
  description:
    - The version that is installed, or would be. V(null) if it is not known, or if neither O(version) nor O(branch) is given.
  returned: success
  type: str
  sample: 580.126.20
would_install:
  description: Whether this is check mode and packages would be installed.
  returned: success
  type: bool
installed:
  description: The packages that the role installed, according to its record.
  returned: success
  type: list
  elements: str
held:
  description: The role's holds, according to its record. With apt, packages. With dnf, lines of its plugin C(versionlock).
  returned: success
  type: list
  elements: str
problems:
  description:
    - How the packages differ from O(packages), and the remedy. Sentences without the node's name and without a full stop
      at the end.
  returned: if O(state=verified)
  type: list
  elements: str
  sample: ["driver 535.309.01 is installed, and branch 580 is requested. Run site.yml --tags driver"]
differences:
  description:
    - Those of RV(problems) for which packages have to be installed, without the remedy. Setting a missing hold interrupts
      nothing.
  returned: if O(state=verified)
  type: list
  elements: str
obstacles:
  description:
    - What blocks an installation. Package sources that apt refuses together with O(repository), because they have its URL
      and another key; foreign holds and locks that block O(packages); a record that cannot be read. Of a branch whose newest
      version is not known yet, a hold blocks if its version is of another branch. Sentences like RV(problems).
  returned: if O(state=verified)
  type: list
  elements: str
up_to_date:
  description:
    - Whether O(state=present) would change nothing, neither packages, pin and holds nor the record, if the role's package
      source is unchanged.
  returned: if O(state=verified)
  type: bool
kept:
  description: Packages that the role installed and that are not removed, because others need them.
  returned: if O(state=absent)
  type: list
  elements: str
msg:
  description: The packages that would be installed or upgraded, with their versions, or what is not known yet.
  returned: in check mode, if packages would be installed
  type: str
diff:
  description: The packages before and after.
  returned: success
  type: dict
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.packages.node_packages import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
