#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_mig
short_description: Configure MIG layouts on NVIDIA GPUs
version_added: 0.9.0
description:
  - Configures MIG mode, GPU instances and compute instances on all GPUs of a node in one call.
  - Validates the layout and plans all GPUs before it writes to any of them. If the layout cannot be applied, the module
    fails without changing anything.
  - Some drivers list a GPU's profiles only while MIG mode is on, for example branch 535 and C(nvidia-smi). On those,
    the module first enables MIG mode and then plans. If the layout is rejected, it disables MIG mode again.
  - A plan destroys the fewest GPU instances that any placement of the layout allows. Matching instances are kept,
    together with their MIG UUIDs and running workloads.
  - An instance with running processes is never destroyed. If the layout requires that, the module fails before it
    writes anything, and lists the processes. With O(busy=skip), it changes the other GPUs.
  - If a write fails, the module recreates the destroyed instances in their original placement. The error message states
    the cause, what was restored and how to proceed.
  - SIGHUP, SIGINT and SIGTERM (a lost connection, Ctrl-C, a cancelled job) end the module only before the first write,
    or after all writes, including a rollback.
  - GPUs that the layout does not name are not changed. If one of them cannot be read, the module issues a warning.
  - If a GPU that the layout covers cannot be read, the module fails before it writes anything. The message names the
    GPU and the entries, and explains how to exclude it. If even the identity of the GPU cannot be read, this also
    applies to entries that may cover it, for example by a UUID that matches none of the other GPUs.
extends_documentation_fragment:
  - gpufleet.node._attributes
attributes:
  check_mode:
    support: full
    details:
      - NVML of some branches (for example 535), and C(nvidia-smi) of all branches, list the profiles of a GPU only
        while MIG mode is on. While it is off, check mode returns only the mode change, and RV(gpus[].mode_first) is
        V(true).
  diff_mode:
    support: full
  idempotent:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
options:
  layout:
    description:
      - The desired state of the GPUs, as a list of entries. Each entry selects GPUs and describes their desired state.
      - If several entries select the same GPU, the last one applies. The order of entries has no other effect.
      - The format is that of C(nvidia-mig-parted) configuration files, version 1. Keys may also be written with dashes
        (C(device-filter), C(mig-enabled), C(mig-devices)), so a named configuration of such a file can be used here
        unchanged.
      - Exactly one of O(layout) and O(config_file) is required.
    type: list
    elements: dict
    suboptions:
      devices:
        description:
          - The GPUs that the entry selects.
          - V(all), an index, a UUID (V(GPU-...)), a PCI bus id (V(00000000:47:00.0)), a pattern on the product name
            (V(*A100*)), or a list of these.
          - An entry that names a GPU that the node does not have is an error. An entry that names a GPU twice, or whose
            list is empty and selects no GPU, is a warning.
        type: raw
        required: true
      device_filter:
        description:
          - Restricts the entry to GPUs with these PCI device ids, V(0x<device><vendor>) or
            V(0x<device><vendor>:0x<subsystem device><subsystem vendor>).
          - An entry may match no GPU because of the filter, so one layout can serve several kinds of nodes.
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
          - The desired instances. Required with O(layout[].mig_enabled=true), where V({}) means no instances. Must be
            empty or omitted otherwise.
          - >-
            A dictionary of profile names and counts, for example V({"3g.40gb": 1, "1g.10gb": 4}). A count of zero means
            none. A name such as V(1c.3g.40gb) denotes a compute instance; these are packed into the fewest GPU
            instances.
          - Or a list of GPU instances, each a dictionary with C(profile), and optionally C(start) (the first memory
            unit of its placement), C(compute_instances) (a list of names such as V(2c.3g.40gb)) and C(count).
          - On Hopper and Blackwell, the one-slice profile with double memory offers two kinds of compute instance.
            V(1g.20gb) has all multiprocessors of the GPU instance (26 on an H100), V(1c.1g.20gb) has those of a single
            slice (16). On GPUs with only one kind, both names denote it.
        type: raw
        aliases: [mig-devices]
  config_file:
    description:
      - Path of a C(nvidia-mig-parted) configuration file, version 1, on the node. It must be a regular file of at most
        1 MiB.
      - A Kubernetes C(ConfigMap) manifest is not accepted. It contains such a file as text in its C(data).
      - JSON is always supported. YAML requires PyYAML on the node. Without it, read the file on the controller and pass
        the configuration in O(layout), as the examples show.
      - The file is read as C(nvidia-mig-parted) reads it. Of several YAML documents, the first is used, and of a key
        that is repeated in one mapping, the last. Both are warnings, and so is what C(nvidia-mig-parted) itself would
        reject, such as C(mig_enabled) instead of C(mig-enabled).
      - Errors in configurations other than O(config_name) are warnings.
      - Some values that C(nvidia-mig-parted) accepts are errors in the selected configuration. C(mig-enabled) without
        value is V(false) there, and an index without value V(0). Negative indices and a C(device-filter) that is not a
        PCI device id match no GPU there, and profiles that no GPU has leave it without instances.
      - Names have the same meaning as in O(layout). For V(1g.20gb), C(nvidia-mig-parted) itself creates the compute
        instance that is called V(1c.1g.20gb) here. This module recreates such compute instances, and fails if they are
        in use.
    type: path
  config_name:
    description:
      - The name of the configuration in O(config_file) to apply. If it is a number in the file, write that number.
      - May be omitted if the file contains only one.
    type: str
  reset:
    description:
      - Whether a GPU may be reset if a MIG mode change requires it, as on GPUs of the Ampere generation.
      - Only the affected GPU is reset, and never while it has clients.
      - With V(false), the result reports such a GPU in RV(reset_required). Nothing is destroyed for a mode change that
        cannot become active. On a GPU without instances, the module requests the change, and the driver applies it if
        the GPU is idle. Otherwise the change stays pending until the next reset or reboot. While the driver lists
        processes on the GPU, nothing is requested, see O(busy).
      - V(true) is required to activate a pending change, and to disable MIG mode on a GPU that has instances.
    type: bool
    default: false
  disturb:
    description:
      - Whether idle instances may be destroyed.
      - With V(false), the module only adds instances. If they do not fit, it fails before it writes anything.
      - Instances that a process uses are never destroyed, regardless of this option.
    type: bool
    default: true
  busy:
    description:
      - What to do if running processes are the only reason why a GPU cannot be changed.
      - With V(fail), the module fails before it writes anything. If a mode change is pending already, and only its
        reset is blocked, it changes the other GPUs, see O(reset). In check mode with C(--diff), the message contains the
        slice maps of all GPUs.
      - With V(skip), the GPU is left unchanged, the others are changed, and RV(deferred) and a warning name the GPU and
        the processes. Run the module again when these have ended.
    type: str
    choices: [fail, skip]
    default: fail
  lock_path:
    description:
      - The lock file that prevents concurrent runs on a node.
      - The directory of the default path is created with mode 0700 if it is missing. The module fails if the directory
        belongs to another user or is accessible to other users, because any user who can open the file can hold the
        lock. Other directories must exist.
      - To run the module as a user other than root, set this to a file in a directory that only root and that user can
        access, and use the same file for all runs.
      - Check mode waits for the lock, but creates neither the file nor the directory. It fails if it cannot access the
        lock file, or if a run without check mode could not create it.
    type: path
    default: /run/gpufleet/nvidia-mig.lock
  lock_wait:
    description:
      - Seconds to wait while another run holds O(lock_path). After that, the module fails and names the other run.
    type: int
    default: 120
  clients_record:
    description:
      - Internal to the role P(gpufleet.node.nvidia_mig#role). The file in which the role records the units that it
        stopped for the change. If a signal ends the run, the module starts these units.
    type: path
  whole_node:
    description:
      - Internal to the role P(gpufleet.node.nvidia_mig#role). Whether no other layout applies to the node, so that GPU
        instances of a GPU that the layout does not name are reported in a warning.
    type: bool
    default: false
  backend:
    description:
      - The interface to the GPUs.
      - V(nvml) uses NVML through the Python package C(nvidia-ml-py) on the node.
      - V(nvidia_smi) uses the command C(nvidia-smi), and needs no Python package.
      - V(auto) uses V(nvml), or V(nvidia_smi) if that Python package or the NVML library is missing.
      - Resets always use C(nvidia-smi), because NVML does not support them.
    type: str
    choices: [auto, nvml, nvidia_smi]
    default: auto
requirements:
  - an NVIDIA driver on the node, branch 515 or newer
  - nvidia-ml-py, or the command nvidia-smi
  - root privileges, even in check mode, because only root can query the MIG profiles of a GPU
notes:
  - MIG instances do not survive a reboot of the node or a reset of the GPU. On Hopper and newer GPUs, MIG mode does not
    survive a reboot either. Run the module again after a reboot.
seealso:
  - module: gpufleet.node.nvidia_driver_facts
  - name: NVIDIA MIG User Guide
    description: Explains profiles, placements, GPU instances and compute instances.
    link: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

EXAMPLES = r"""
- name: Create one large and four small instances on every GPU
  gpufleet.node.nvidia_mig:
    layout:
      - devices: all
        mig_enabled: true
        mig_devices:
          3g.40gb: 1
          1g.10gb: 4

- name: Configure some GPUs differently (the last matching entry applies)
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

- name: Preview the changes as slice maps
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
  check_mode: true
  diff: true

- name: Add instances without destroying idle ones
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
    disturb: false

- name: Enable MIG mode on A100 GPUs, which requires a reset
  gpufleet.node.nvidia_mig:
    layout:
      - devices: "*A100*"
        mig_enabled: true
        mig_devices: {}
    reset: true

- name: Change the GPUs that are not in use
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
    busy: skip

- name: Apply a configuration from an nvidia-mig-parted file on the node
  gpufleet.node.nvidia_mig:
    config_file: /etc/nvidia-mig-manager/config.yaml
    config_name: all-balanced

- name: Apply a configuration from an nvidia-mig-parted file on the controller
  gpufleet.node.nvidia_mig:
    layout: "{{ (lookup('ansible.builtin.file', 'mig-parted.yaml') | from_yaml)['mig-configs']['all-balanced'] }}"

- name: Use nvidia-smi, and fail immediately if another run is active
  gpufleet.node.nvidia_mig:
    layout: "{{ nvidia_mig_layout }}"
    backend: nvidia_smi
    lock_path: /run/mig.lock
    lock_wait: 0
"""

RETURN = r"""
gpus:
  description:
    - The GPUs that the layout selects, in order of index.
    - Instances have the same structure in RV(gpus[].kept), RV(gpus[].created) and RV(gpus[].destroyed).
    - In check mode, the instances of a GPU that O(busy=skip) leaves unchanged are those of the change without the
      processes that block it.
    - With RV(busy), only the index and the UUID of each, RV(gpus[].mode_first), RV(gpus[].reset_required), and
      RV(gpus[].changed), which is V(true) for the GPUs that O(busy=skip) would change.
  returned: on success, on failure after planning, and, in check mode, with RV(busy)
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
          description: Whether MIG mode was on before the run.
          type: bool
        desired:
          description: Whether MIG mode is on in the layout.
          type: bool
        current:
          description: Whether MIG mode is on after the run. In check mode, the mode before the run.
          type: bool
        pending:
          description: The mode that the next reset of the GPU activates. In check mode, the value before the run.
          type: bool
      sample: {"before": true, "desired": true, "current": true, "pending": true}
    changed:
      description: Whether the GPU was changed, or in check mode would be changed.
      type: bool
      sample: true
    kept:
      description: GPU instances that are unchanged, or of which only the compute instances change.
      type: list
      elements: dict
      contains: &instance
        id:
          description: Id of the GPU instance. V(null) in check mode if it does not exist yet.
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
          description: Its compute instances after the run, or before the run if it was destroyed.
          type: list
          elements: dict
          contains:
            id:
              description: Id of the compute instance. V(null) in check mode if it does not exist yet.
              type: int
            profile:
              description: Name of the compute instance's profile.
              type: str
            slices:
              description: Number of its compute slices.
              type: int
            uuid:
              description: UUID of the MIG device. V(null) in check mode if it does not exist yet.
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
    mode_first:
      description: Whether the instances can be planned only after MIG mode is on. Only set in check mode.
      type: bool
      sample: false
    reset_required:
      description:
        - Whether the GPU must be reset to complete the layout. See O(reset).
        - Check mode derives it from the processes that the driver lists. Some clients of a GPU, such as
          C(nvidia-persistenced), are not listed and are only detected when the mode is changed.
      type: bool
      sample: false
    reboot_required:
      description: Whether the node must be rebooted to complete the layout, because the GPU cannot be reset.
      type: bool
      sample: false
    clients:
      description: Processes that block the layout, if the driver lists them.
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
        - What failed on this GPU, what was restored and what to do. V(null) if nothing failed. The module's message lists
          the first few of these errors.
      type: str
      sample: null
    retries:
      description:
        - Writes that failed without effect because of a transient error, and were retried. The keys are those of
          RV(operations), and C(error).
      type: list
      elements: dict
      sample: []
operations:
  description:
    - The writes, in order for each GPU, including those that roll back a GPU after a failure.
    - In check mode, the planned writes.
  returned: on success, and on failure after planning
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
      description: Name of the instance's profile. V(null) for a mode change and a reset.
      type: str
    placement:
      description: Placement of the GPU instance, as C(start:size). V(null) for a mode change and a reset.
      type: str
    enabled:
      description: The new MIG mode. V(null) for anything but a mode change.
      type: bool
  sample:
    - {"gpu": 0, "kind": "destroy_compute_instance", "profile": "1g.10gb", "placement": "0:1", "enabled": null}
    - {"gpu": 0, "kind": "destroy_gpu_instance", "profile": "1g.10gb", "placement": "0:1", "enabled": null}
disruption:
  description:
    - The most disruptive step of the change, in check mode of the planned change. One of V(none), V(create) (only creates
      instances in free space), V(destroy) (destroys instances) and V(mode) (changes the MIG mode, or resets a GPU).
    - V(mode) if a GPU must be reset. Includes the steps that processes block.
  returned: on success, on failure after planning, and with RV(busy)
  type: str
  sample: destroy
unmatched:
  description:
    - The GPUs that do not match the layout after the run, by index and UUID. In check mode, those that do not match it now.
  returned: on success, and on failure after planning
  type: list
  elements: str
  sample: []
reset_required:
  description:
    - Whether a GPU must be reset to complete the layout. See RV(gpus[].reset_required) for each GPU.
    - With O(busy=skip), not for the GPUs in RV(deferred).
  returned: on success, and on failure after planning
  type: bool
  sample: false
reboot_required:
  description: Whether the node must be rebooted to complete the layout. See RV(gpus[].reboot_required) for each GPU.
  returned: on success, and on failure after planning
  type: bool
  sample: false
busy:
  description: Whether running processes are the only reason why the layout cannot be applied.
  returned: on failure for that reason
  type: bool
  sample: true
deferred:
  description: The GPUs that do not match the layout because processes use them.
  returned: on success, on failure after planning, and with RV(busy)
  type: list
  elements: dict
  contains:
    index:
      description: Index of the GPU.
      type: int
    uuid:
      description: UUID of the GPU.
      type: str
    reason:
      description: What the processes block, and the remedy.
      type: str
    clients:
      description: These processes, with RV(gpus[].clients)'s keys.
      type: list
      elements: dict
  sample:
    - index: 0
      uuid: GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60
      reason: >-
        GPU 0 (GPU-9f0cc172-3b5e-4f0c-8a2f-5f4d2c1b7a60, 00000000:47:00.0, NVIDIA A100 80GB PCIe): the layout cannot be
        reached without destroying GPU instance 0 (7g.80gb at 0:8), used by PID 4711 (python). Stop these processes, or
        use a layout that keeps these instances at their placements
      clients: [{pid: 4711, name: python}]
backend:
  description: The interface that was used, V(nvml) or V(nvidia_smi).
  returned: on success, and on failure after planning
  type: str
  sample: nvml
diff:
  description:
    - The slice maps of the GPUs before and after the run, one line for each GPU.
    - The line of a GPU in RV(deferred) ends with the processes that block it, and in check mode shows the change
      without them.
  returned: on success, on failure after planning, and, in check mode, with RV(busy)
  type: dict
  contains:
    before:
      description: The state before the run.
      type: str
      sample: |
        GPU 0 GPU-9f0c... A100 80GB  |3g.40gb                        |3g.40gb                        |
    after:
      description: The state after the run, or in check mode the planned state.
      type: str
      sample: |
        GPU 0 GPU-9f0c... A100 80GB  |1g.10gb|1g.10gb|2g.20gb        |3g.40gb                        |
changed_lines:
  description: The lines of RV(diff) that differ, each after C(-) or C(+), as C(--diff) shows them.
  returned: on success, and on failure after planning
  type: list
  elements: str
  sample:
    - "-GPU 0 GPU-9f0c... A100 80GB  |3g.40gb                        |3g.40gb                        |"
    - "+GPU 0 GPU-9f0c... A100 80GB  |1g.10gb|1g.10gb|2g.20gb        |3g.40gb                        |"
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.mig.nvidia_mig import ARGUMENTS, run


def main() -> None:
    run(Module(supports_check_mode=True, **ARGUMENTS))


if __name__ == "__main__":
    main()
