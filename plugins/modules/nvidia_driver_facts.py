#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nvidia_driver_facts
short_description: Gather facts about the NVIDIA driver and GPUs
version_added: 0.9.0
description:
  - Returns facts about the NVIDIA driver, its kernel module and the GPUs of a node, with MIG mode and MIG instances.
  - Uses NVML if the driver works and the Python package C(nvidia-ml-py) is installed, otherwise the command
    C(nvidia-smi). If neither works, reads the kernel's files, the PCI bus and the package database.
  - A value that cannot be read is V(null), including lists. An empty list, V(0) or V(false) is a value that was read.
  - On a node without GPUs, returns an empty list of GPUs and no error.
  - Omits volatile values such as temperatures, so the facts can be cached.
extends_documentation_fragment:
  - gpufleet.node._attributes
  - gpufleet.node._attributes.facts
attributes:
  check_mode:
    support: full
    details:
      - It changes nothing.
  diff_mode:
    support: N/A
    details:
      - It changes nothing.
  idempotent:
    support: full
    details:
      - It changes nothing.
  facts:
    support: full
author:
  - The gpufleet.node authors (@gpufleet)
notes:
  - Without root privileges, the driver does not list the profiles and placements of GPU instances. Such a GPU is
    returned with the available values, and RV(ansible_facts.nvidia.gpus[].problem) states the reason. The filters of
    this collection that need the instances reject it.
seealso:
  - module: gpufleet.node.nvidia_mig
options: {}
"""

EXAMPLES = r"""
- name: Gather driver and GPU facts
  gpufleet.node.nvidia_driver_facts:

- name: Fail if the driver was upgraded and the old kernel module is still loaded
  ansible.builtin.assert:
    that: ansible_facts.nvidia.kernel_module.versions_match is not false
    fail_msg: >-
      The kernel runs {{ ansible_facts.nvidia.kernel_module.loaded_version }}, but
      {{ ansible_facts.nvidia.kernel_module.installed_version }} is installed. Reboot the node.

- name: Show the UUIDs of all MIG devices
  ansible.builtin.debug:
    msg: "{{ ansible_facts.nvidia.gpus | map(attribute='mig.devices') | select | flatten | map(attribute='uuid') }}"

- name: List the GPUs with MIG mode on
  ansible.builtin.debug:
    msg: "{{ ansible_facts.nvidia.gpus | selectattr('mig.current', 'eq', true) | map(attribute='index') }}"
"""

RETURN = r"""
ansible_facts:
  description: The facts, under one key.
  returned: always
  type: dict
  contains:
    nvidia:
      description: The NVIDIA driver and GPUs.
      type: dict
      contains:
        driver:
          description: The driver.
          type: dict
          contains:
            version:
              description: Version of the running driver, or of the installed driver if none is running.
              type: str
              sample: 550.163.01
            source:
              description:
                - Source of the version. V(nvml), V(nvidia_smi), V(proc) (the files of the loaded kernel module) or
                  V(package) (the package database, or the kernel module on disk). V(null) if no driver was found.
              type: str
              sample: nvml
            problem:
              description:
                - Why neither NVML nor C(nvidia-smi) could be used, or why the versions could not be read. V(null) otherwise.
              type: str
              sample: null
            installation:
              description: How the driver was installed.
              type: dict
              contains:
                method:
                  description:
                    - V(packages), V(run_file) (NVIDIA's installer), V(vgpu_packages) (a vGPU guest driver or manager),
                      V(other_packages) (of RPM Fusion or ELRepo), V(files) (libraries that belong to no package), or
                      V(none). V(null) if it cannot be read.
                  type: str
                  sample: packages
                evidence:
                  description: The packages, or the paths of files, that show it.
                  type: list
                  elements: str
                  sample: [nvidia-dkms-580-open, libnvidia-compute-580]
        cuda_version:
          description: Highest CUDA version that the driver supports.
          type: str
          sample: "12.4"
        nvml_version:
          description: Version of NVML.
          type: str
          sample: 12.550.163.01
        kernel_module:
          description: The kernel module C(nvidia).
          type: dict
          contains:
            flavour:
              description:
                - V(open), V(proprietary), or V(none) if no module is loaded or installed. V(null) if it cannot be read.
              type: str
              sample: open
            loaded_version:
              description: Version of the loaded module.
              type: str
              sample: 550.163.01
            installed_version:
              description:
                - Version of the installed module, from C(modinfo) or else from the package database.
              type: str
              sample: 550.163.01
            versions_match:
              description:
                - Whether the loaded and the installed version are equal. If not, the node needs a reboot. V(null) if
                  one of the versions is unknown.
              type: bool
              sample: true
        secure_boot:
          description:
            - V(enabled), V(disabled), or V(unsupported) if the node does not boot with UEFI. V(null) if the UEFI
              variables cannot be read, for example in a container.
          type: str
          sample: disabled
        fabric_manager:
          description:
            - The unit C(nvidia-fabricmanager.service). Values are V(null) if C(systemctl) does not report them.
          type: dict
          contains:
            installed:
              description: Whether the unit is installed.
              type: bool
            active:
              description: Whether the unit is active.
              type: bool
            enabled:
              description: Whether the unit is enabled.
              type: bool
          sample: {"installed": true, "active": true, "enabled": true}
        nvswitches:
          description:
            - The NVSwitches on the PCI bus, in order of bus id. Fifth-generation NVLink switches are not on the PCI
              bus.
            - V(null) if the PCI bus cannot be read.
          type: list
          elements: dict
          contains:
            pci_bus_id:
              description: PCI bus id as NVML prints it.
              type: str
              sample: "00000000:05:00.0"
            pci_device_id:
              description: PCI device and vendor.
              type: str
              sample: "0x22A310DE"
        gpus:
          description:
            - The GPUs. First those that the driver lists, in order of index, then those that are only on the PCI bus.
            - A GPU that the driver lists but cannot read, for example a lost one, has its index, its problem, and the
              values from the PCI bus.
            - V(null) if neither the driver nor the PCI bus can be read.
          type: list
          elements: dict
          contains:
            index:
              description: Index of the GPU. V(null) if the driver does not list it.
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
            pci_device_id:
              description: PCI device and vendor, in the format of a layout's C(device_filter).
              type: str
              sample: "0x20B510DE"
            pci_subsystem_id:
              description: PCI device and vendor of the subsystem, the second part of a layout's C(device_filter).
              type: str
              sample: "0x153310DE"
            name:
              description: Product name.
              type: str
              sample: NVIDIA A100 80GB PCIe
            serial:
              description: Serial number.
              type: str
              sample: "1322621012345"
            memory_mib:
              description: Memory in MiB.
              type: int
              sample: 81920
            architecture:
              description: Architecture of the GPU.
              type: str
              sample: ampere
            compute_capability:
              description: CUDA compute capability.
              type: str
              sample: "8.0"
            problem:
              description: Why the driver does not report all values. V(null) if it does, or if the GPU is not listed.
              type: str
              sample: null
            mig:
              description: MIG mode and instances.
              type: dict
              contains:
                capable:
                  description:
                    - Whether the GPU supports MIG. V(null) if that cannot be read.
                    - A GPU whose PCI device id is that of a known board supports it, also if the driver reports no MIG
                      mode. RV(ansible_facts.nvidia.gpus[].problem) then states that.
                  type: bool
                  sample: true
                current:
                  description: Whether MIG mode is on. V(null) without MIG support, or if it cannot be read.
                  type: bool
                  sample: true
                pending:
                  description:
                    - Whether MIG mode is on after the GPU's next reset. V(null) on a GPU without MIG support, and if it
                      cannot be read.
                  type: bool
                  sample: true
                instances:
                  description: The GPU instances. V(null) if they cannot be read, empty if there are none.
                  type: list
                  elements: dict
                  contains:
                    id:
                      description: Id of the GPU instance.
                      type: int
                      sample: 2
                    profile:
                      description: Name of its profile.
                      type: str
                      sample: 3g.40gb
                    start:
                      description: First memory unit of its placement.
                      type: int
                      sample: 0
                    size:
                      description: Number of memory units of its placement.
                      type: int
                      sample: 4
                    compute_instances:
                      description: Its compute instances.
                      type: list
                      elements: dict
                      contains:
                        id:
                          description: Id of the compute instance.
                          type: int
                          sample: 0
                        profile:
                          description:
                            - Name of its profile.
                            - V(1c.1g.20gb) has fewer multiprocessors than its GPU instance V(1g.20gb).
                          type: str
                          sample: 3g.40gb
                        slices:
                          description: Number of its compute slices.
                          type: int
                          sample: 3
                        uuid:
                          description:
                            - UUID of its MIG device. V(null) if the driver does not list the device.
                              RV(ansible_facts.nvidia.gpus[].problem) then states that.
                          type: str
                          sample: MIG-5c89852c-d268-5c1d-b2e1-9f1d0b8a6a6f
                devices:
                  description:
                    - The MIG devices, which are the compute instances of all GPU instances in one list. V(null) if they
                      cannot be read, empty if there are none.
                  type: list
                  elements: dict
                  contains:
                    uuid:
                      description: UUID of the MIG device.
                      type: str
                      sample: MIG-5c89852c-d268-5c1d-b2e1-9f1d0b8a6a6f
                    gi_id:
                      description: Id of its GPU instance.
                      type: int
                      sample: 2
                    ci_id:
                      description: Id of its compute instance.
                      type: int
                      sample: 0
                    device_files:
                      description:
                        - The files that a process needs to use the device, which are those of the GPU, the GPU instance and
                          the compute instance. V(null) if the kernel module does not show them.
                      type: list
                      elements: str
                      sample: [/dev/nvidia0, /dev/nvidia-caps/nvidia-cap21, /dev/nvidia-caps/nvidia-cap22]
                    profile:
                      description: Name of the compute instance's profile.
                      type: str
                      sample: 3g.40gb
"""

from ansible_collections.gpufleet.node.plugins.module_utils._module.common.module import Module
from ansible_collections.gpufleet.node.plugins.module_utils._module.driver.facts import run


def main() -> None:
    run(Module(argument_spec={}, supports_check_mode=True))


if __name__ == "__main__":
    main()
