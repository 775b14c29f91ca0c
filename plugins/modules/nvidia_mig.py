#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig
short_description: Bring the MIG layout of a node's GPUs to what is wanted
version_added: 0.1.0
description:
  - Brings MIG mode, GPU instances and compute instances of all GPUs of a node to a layout, in one call.
  - The layout of every GPU is checked and planned before anything is written to any of them. A layout that cannot be
    reached is refused, and nothing has changed then.
  - Where a driver tells a GPU's profiles only while MIG mode is on, as V(nvidia_smi) and branch 535 do, the mode is switched
    on first and everything is planned then. If the layout is refused, the mode is switched off again.
  - A plan destroys the fewest GPU instances that any placement of the layout allows. What matches is kept, together
    with its MIG UUIDs and the work that runs on it.
  - An instance with processes is never destroyed. Where a layout cannot be reached without that, the module fails before
    it writes, and names the processes.
  - If a write fails, the instances that were destroyed are made again where they were, and the message says what happened,
    what was restored and what to do.
  - GPUs that the layout does not name are left alone. If one of them cannot be read, the module warns.
  - A GPU that the layout covers and that cannot be read fails the module before it writes. The message names the GPU and
    the entries, and how to leave it out. If not even its identity can be read, this includes entries that may cover it. An
    example is a UUID that matches none of the other GPUs.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - NVML of some branches (535 is one), and C(nvidia-smi) of all, tell the profiles of a GPU only while MIG mode is on.
        While it is off, check mode then returns the mode change alone, and V(true) in RV(gpus[].deferred).
  diff_mode:
    support: full
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  layout:
    description:
      - What the GPUs should look like, as a list of entries. Each says which GPUs it is for, and what it wants of them.
      - A later entry overrides an earlier one for the GPUs that both name. The order of entries means nothing else.
      - The vocabulary is that of C(nvidia-mig-parted) configuration files, version 1. The keys can be spelt with dashes as
        there (C(device-filter), C(mig-enabled), C(mig-devices)), so that a named configuration of such a file can be given
        here unchanged.
      - Exactly one of O(layout) and O(config_file) is required.
    type: list
    elements: dict
    suboptions:
      devices:
        description:
          - The GPUs that the entry is for.
          - V(all), an index, a UUID (V(GPU-...)), a PCI bus id (V(00000000:47:00.0)), a pattern on the product name
            (V(*A100*)), or a list of these.
          - An entry that names a GPU that the node does not have is refused.
        type: raw
        required: true
      device_filter:
        description:
          - Restricts the entry to GPUs with these PCI device ids, V(0x<device><vendor>) or
            V(0x<device><vendor>:0x<subsystem device><subsystem vendor>).
          - An entry may be left without a GPU by it, so that one layout can serve several kinds of nodes.
        type: raw
        aliases: [device-filter]
      mig_enabled:
        description:
          - Whether MIG mode should be on.
        type: bool
        required: true
        aliases: [mig-enabled]
      mig_devices:
        description:
          - The instances that should exist. Required where O(layout[].mig_enabled=true), V({}) means none. Otherwise it
            must be empty or left out.
          - >-
            A dictionary of profile names and counts, for example V({"3g.40gb": 1, "1g.10gb": 4}). A count of zero means
            none. A name such as V(1c.3g.40gb) stands for a compute instance; counts of those are packed into the fewest
            GPU instances.
          - Or a list of GPU instances, each a dictionary with C(profile), and where wanted C(start) (the first memory unit
            of its placement), C(compute_instances) (a list of names such as V(2c.3g.40gb)) and C(count).
          - On Hopper and Blackwell, the profile of one slice with double memory offers two kinds of compute instance.
            V(1g.20gb) has all multiprocessors of the GPU instance (26 on an H100), V(1c.1g.20gb) has those of a single
            slice (16). Where there is one kind only, both names mean it.
        type: raw
        aliases: [mig-devices]
  config_file:
    description:
      - Path of a C(nvidia-mig-parted) configuration file, version 1, on the node. It must be a regular file of at most
        1 MiB.
      - A Kubernetes C(ConfigMap) is not such a file, but holds one as text in its C(data).
      - JSON can always be read. YAML needs PyYAML on the node. Without it, read the file on the controller and give the
        configuration in O(layout), as the examples show.
      - Names mean the same as in O(layout). C(nvidia-mig-parted) itself creates for V(1g.20gb) what is called
        V(1c.1g.20gb) here. This module recreates such compute instances, and fails where they are in use.
    type: path
  config_name:
    description:
      - The configuration in O(config_file) to bring the GPUs to.
      - May be left out where the file holds only one.
    type: str
  reset:
    description:
      - Whether a GPU may be reset where a change of MIG mode needs that, as it does on GPUs of the Ampere generation.
      - Only the GPU that needs it is reset, never another one, and never while it has clients.
      - With V(false) the result reports such a GPU in RV(reset_required). Nothing is destroyed for a mode change that
        cannot become active. On a GPU without instances the change is requested, and the driver makes it if the GPU is
        idle; otherwise it stays pending until the next reset or reboot.
      - A change that is already pending, and switching MIG mode off on a GPU that holds instances, need V(true).
    type: bool
    default: false
  disturb:
    description:
      - Whether instances may be destroyed that no process uses.
      - With V(false) the module only adds instances where they fit, and fails before it writes where they do not.
      - Instances that a process uses are never destroyed, whatever this says.
    type: bool
    default: true
  lock_path:
    description:
      - The lock file that lets only one run at a time converge the GPUs of a node.
      - The directory of the default is created with mode 0700 if it is missing. It is refused if it belongs to another
        user or is open to other users, because a user who can open the file can hold the lock. Other directories must
        exist.
      - To run the module as a user other than root, set this to a file in a directory that only root and that user can
        enter, and use the same file for all runs.
      - Check mode waits for the lock, but creates neither file nor directory. It fails where it cannot see the lock, and
        where a run without check mode could not create it.
    type: path
    default: /run/gpufleet/nvidia-mig.lock
  lock_wait:
    description:
      - Seconds to wait while another run holds O(lock_path). After that the module fails, naming that run.
    type: int
    default: 120
  backend:
    description:
      - How to reach the GPUs.
      - V(nvml) uses NVML through the Python package C(nvidia-ml-py) on the node.
      - V(nvidia_smi) uses the command C(nvidia-smi), and needs no Python package.
      - V(auto) takes V(nvml), or V(nvidia_smi) where that Python package or NVML's library is missing.
      - Resets are made with C(nvidia-smi) in every case, because NVML cannot.
    type: str
    choices: [auto, nvml, nvidia_smi]
    default: auto
requirements:
  - an NVIDIA driver on the node, branch 515 or newer
  - nvidia-ml-py, or the command nvidia-smi
  - root privileges, also in check mode, because only root may ask a GPU for its MIG profiles
notes:
  - MIG instances do not survive a reboot of the node or a reset of the GPU. On Hopper and newer GPUs, MIG mode does not
    survive a reboot either. Run the module again after a reboot.
seealso:
  - module: gpufleet.node.nvidia_driver_facts
  - name: NVIDIA MIG User Guide
    description: What profiles, placements, GPU instances and compute instances are.
    link: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

EXAMPLES = r"""
- name: Give every GPU one large instance and four small ones
  gpufleet.node.nvidia_mig:
    layout:
      - devices: all
        mig_enabled: true
        mig_devices:
          3g.40gb: 1
          1g.10gb: 4

- name: Treat some GPUs differently (the later entries win)
  gpufleet.node.nvidia_mig:
    layout:
      - devices: all
        mig_enabled: true
        mig_devices: {1g.10gb: 7}
      - devices: ["GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60", "00000000:47:00.0"]
        mig_enabled: true
        mig_devices:
          - {profile: 3g.40gb, start: 4}
          - {profile: 3g.40gb, compute_instances: [1c.3g.40gb, 2c.3g.40gb]}
      - devices: 7
        mig_enabled: false

- name: Show what would happen, as slice maps, without doing it
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
  check_mode: true
  diff: true

- name: Add instances, and destroy none, not even idle ones
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
    disturb: false

- name: Turn MIG mode on for A100 GPUs, which have to be reset for that
  gpufleet.node.nvidia_mig:
    layout:
      - devices: "*A100*"
        mig_enabled: true
        mig_devices: {}
    reset: true

- name: Use a configuration file of nvidia-mig-parted that is on the node
  gpufleet.node.nvidia_mig:
    config_file: /etc/nvidia-mig-manager/config.yaml
    config_name: all-balanced

- name: Use a configuration file of nvidia-mig-parted that is on the controller
  gpufleet.node.nvidia_mig:
    layout: "{{ (lookup('ansible.builtin.file', 'mig-parted.yaml') | from_yaml)['mig-configs']['all-balanced'] }}"

- name: Reach the GPUs through nvidia-smi, and do not wait for another run
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
    backend: nvidia_smi
    lock_path: /run/mig.lock
    lock_wait: 0
"""

RETURN = r"""
gpus:
  description:
    - The GPUs that the layout names, in order of index.
    - Instances have the same shape in RV(gpus[].kept), RV(gpus[].created) and RV(gpus[].destroyed).
    - With RV(busy), only RV(gpus[].index), RV(gpus[].uuid), RV(gpus[].pci_bus_id) and RV(gpus[].name).
  returned: always, also on failure once the plan is made, and with RV(busy)
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU.
      type: int
      sample: 0
    uuid:
      description: UUID of the GPU.
      type: str
      sample: GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60
    pci_bus_id:
      description: PCI bus id as NVML prints it.
      type: str
      sample: "00000000:47:00.0"
    name:
      description: Product name.
      type: str
      sample: NVIDIA A100 80GB PCIe
    mode:
      description: MIG mode.
      type: dict
      contains:
        before:
          description: Whether MIG mode was on.
          type: bool
        wanted:
          description: Whether the layout wants MIG mode on.
          type: bool
        current:
          description: Whether MIG mode is on after the run. In check mode the mode before it.
          type: bool
        pending:
          description: The mode that the GPU gets with its next reset. In check mode that of before the run.
          type: bool
      sample: {"before": true, "wanted": true, "current": true, "pending": true}
    changed:
      description: Whether the GPU was, or in check mode would be, written to.
      type: bool
      sample: true
    kept:
      description: Instances that stay as they are, or of which only compute instances change.
      type: list
      elements: dict
      contains: &instance
        id:
          description: Id of the GPU instance. V(null) where it does not exist yet, in check mode.
          type: int
        profile:
          description: Name of the GPU instance's profile.
          type: str
        start:
          description: First memory unit of its placement.
          type: int
        size:
          description: Number of memory units of its placement.
          type: int
        compute_instances:
          description: Its compute instances, after the run, or where it was destroyed, before.
          type: list
          elements: dict
          contains:
            id:
              description: Id of the compute instance. V(null) where it does not exist yet, in check mode.
              type: int
            profile:
              description: Name of the compute instance's profile.
              type: str
            slices:
              description: Number of its compute slices.
              type: int
            uuid:
              description: UUID of the MIG device. V(null) where it does not exist yet, in check mode.
              type: str
      sample:
        - id: 2
          profile: 3g.40gb
          start: 0
          size: 4
          compute_instances:
            - {"id": 0, "profile": "3g.40gb", "slices": 3, "uuid": "MIG-5c89852c-d268-5c1d-b2e1-9f1d0b8a6a6f"}
    created:
      description: Instances that were, or would be, created.
      type: list
      elements: dict
      contains: *instance
      sample: []
    destroyed:
      description: Instances that were, or would be, destroyed.
      type: list
      elements: dict
      contains: *instance
      sample: []
    deferred:
      description: Whether the rest can be planned only once MIG mode is on. Possible in check mode only.
      type: bool
      sample: false
    reset_required:
      description:
        - Whether the GPU must be reset before it has the layout. See O(reset).
        - Check mode derives it from the processes that the driver lists. Some holders of a GPU, such as
          C(nvidia-persistenced), are not listed and show only when the mode is changed.
      type: bool
      sample: false
    reboot_required:
      description: Whether the node must be rebooted before the GPU has the layout, because it cannot be reset.
      type: bool
      sample: false
    clients:
      description: Processes that keep the GPU from becoming what the layout wants, where the driver names them.
      type: list
      elements: dict
      contains:
        pid:
          description: Process id.
          type: int
        name:
          description: Name of the process.
          type: str
      sample: []
    error:
      description:
        - What failed on this GPU, what was restored and what to do. V(null) if nothing did. The module's message lists
          the first few of them.
      type: str
      sample: null
    retries:
      description:
        - Writes that failed without effect, in a way that can pass, and were repeated. The keys are those of
          RV(operations), with the C(error) beside them.
      type: list
      elements: dict
      sample: []
operations:
  description:
    - The writes, in their order on each GPU, those included that restore a GPU after a failure.
    - In check mode those that would be made.
  returned: always, also on failure once the plan is made
  type: list
  elements: dict
  contains:
    gpu:
      description: Index of the GPU.
      type: int
    kind:
      description:
        - One of V(set_mode), V(reset), V(destroy_compute_instance), V(destroy_gpu_instance), V(create_gpu_instance) and
          V(create_compute_instance).
      type: str
    profile:
      description: Name of the profile of the instance that is written. V(null) for a mode change and a reset.
      type: str
    placement:
      description: Placement of the GPU instance, as C(start:size). V(null) for a mode change and a reset.
      type: str
    enabled:
      description: The new MIG mode. V(null) for all but a mode change.
      type: bool
  sample:
    - {"gpu": 0, "kind": "destroy_compute_instance", "profile": "1g.10gb", "placement": "0:1", "enabled": null}
    - {"gpu": 0, "kind": "destroy_gpu_instance", "profile": "1g.10gb", "placement": "0:1", "enabled": null}
reset_required:
  description: Whether a GPU must be reset before the node has the layout. RV(gpus[].reset_required) says which.
  returned: always, also on failure once the plan is made
  type: bool
  sample: false
reboot_required:
  description: Whether the node must be rebooted before it has the layout. RV(gpus[].reboot_required) says for which GPU.
  returned: always, also on failure once the plan is made
  type: bool
  sample: false
busy:
  description: Whether nothing but processes that use the GPUs stands in the way of the layout.
  returned: on failure for that reason
  type: bool
  sample: true
backend:
  description: How the GPUs were reached. V(nvml) or V(nvidia_smi).
  returned: always, also on failure once the plan is made
  type: str
  sample: nvml
diff:
  description: The slice maps of the GPUs, one line each, before and after.
  returned: always, also on failure once the plan is made
  type: dict
  contains:
    before:
      description: What the GPUs looked like.
      type: str
      sample: |
        GPU 0 GPU-9f0c... A100 80GB  |3g.40gb                        |3g.40gb                        |
    after:
      description: What they look like now, or in check mode would look like.
      type: str
      sample: |
        GPU 0 GPU-9f0c... A100 80GB  |1g.10gb|1g.10gb|2g.20gb        |3g.40gb                        |
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.node.plugins.module_utils._module.mig import ARGUMENTS, run


def main() -> None:
    run(AnsibleModule(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
