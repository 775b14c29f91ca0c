# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""The module rke2_state: read the state of a node that the role rke2 needs. Changes nothing."""

from __future__ import annotations

import os
import re
import typing as t

from ..common import files, record
from ..common.commands import Run, runner
from ..toolkit.container_runtimes import KUBERNETES, PROGRAM
from . import containerd

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ARGUMENTS: t.Dict[str, t.Any] = {"argument_spec": {"data_path": {"type": "path", "required": True}}}

PREFIX = "/usr/local"  # of the archive
CONFIG = "/etc/rancher/rke2"
# Files of other Kubernetes distributions.
OTHERS: t.Mapping[str, t.Sequence[str]] = {
    "K3s": [path for path in KUBERNETES["k3s"] if path.startswith(("/usr", "/opt"))] + ["/var/lib/rancher/k3s"],
    "kubeadm's kubelet": ["/etc/kubernetes/kubelet.conf", "/etc/kubernetes/admin.conf", "/var/lib/kubelet/config.yaml"],
    "MicroK8s": ["/var/snap/microk8s/current"],
    "k0s": ["/var/lib/k0s"],
}


def run(module: AnsibleModule) -> None:
    try:
        state = read(module.params["data_path"], record.read("rke2"), runner(module))
    except record.RecordError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg="The state of RKE2 cannot be read: %s%s" % (error, files.remedy(error)))
    module.exit_json(changed=False, state=state)


def read(data_path: str, recorded: t.Mapping[str, t.Any], command: Run) -> t.Dict[str, t.Any]:
    program = nvidia_program(command)
    return {
        "recorded": recorded,
        "version": version(command([recorded.get("prefix", PREFIX) + "/bin/rke2", "--version"])[1]),
        "active": next((kind for kind in ("server", "agent") if _is_active("rke2-" + kind, command)), ""),
        "has_cluster": bool(_entries(os.path.join(data_path, "server", "db"))),
        "nvidia_program": program,
        "network_manager": _is_active("NetworkManager", command),
        "foreign": foreign(data_path),
        "archive_problems": archive_problems(),
        "problems": [
            *_system_problems(command),
            *containerd.config_problems(containerd.own_files(data_path), program),
        ],
    }


def version(text: str) -> t.Optional[str]:
    """The version in the output of rke2 --version."""
    match = re.search(r"^rke2 version (v\S+)", text, re.MULTILINE)
    return match.group(1) if match else None


def nvidia_program(command: Run) -> str:
    """The nvidia runtime that RKE2 would find on the PATH of its service; empty if there is none."""
    path = os.path.join(containerd.FIRST_ON_PATH, PROGRAM)
    if os.access(path, os.X_OK):
        return path
    _rc, out, _err = command(["sh", "-c", "command -v " + PROGRAM])
    return out.strip()


def foreign(data_path: str) -> t.List[str]:
    """Kubernetes installations on a node where the role has not installed RKE2."""
    found = ["%s is installed (%s)" % (name, path) for name, path in _first_files(OTHERS)]
    own = [path for path in KUBERNETES["rke2"] if not path.startswith("/etc")]
    # Not the whole data directory: image archives may be copied there before RKE2 is installed.
    own += [os.path.join(data_path, "agent", "client-ca.crt"), os.path.join(data_path, "server", "tls")]
    found += ["RKE2 is installed (%s), but not by this role" % path for _name, path in _first_files({"": own})]
    return found


def _first_files(named: t.Mapping[str, t.Sequence[str]]) -> t.Iterator[t.Tuple[str, str]]:
    """The first existing file of each."""
    for name, paths in named.items():
        path = next(filter(os.path.exists, paths), None)
        if path:
            yield name, path


def archive_problems() -> t.List[str]:
    """Why RKE2 cannot be installed from its archive."""
    if os.path.isdir(PREFIX) and (os.path.ismount(PREFIX) or not os.access(PREFIX, os.W_OK)):
        return [
            "%s is read-only, or a separate file system, in which systemd does not find RKE2's units at boot. The role "
            "cannot unpack RKE2 elsewhere. On Enterprise Linux, set rke2_install_method to rpm" % PREFIX
        ]
    return []


def _system_problems(command: Run) -> t.List[str]:
    found = []
    if not os.path.isdir("/run/systemd/system"):
        found.append("the host does not run systemd, which RKE2 requires")
    if command(["systemctl", "is-enabled", "--quiet", "nm-cloud-setup.service"])[0] == 0:
        found.append(
            "nm-cloud-setup.service is enabled, and removes the routes of the pod network. Disable it (systemctl "
            "disable nm-cloud-setup.service nm-cloud-setup.timer), and reboot"
        )
    return found


def _is_active(unit: str, command: Run) -> bool:
    return command(["systemctl", "is-active", "--quiet", unit])[0] == 0


def _entries(path: str) -> t.List[str]:
    return os.listdir(path) if os.path.isdir(path) else []
