# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Output of the real nvidia-smi 535 and 550, recorded on a simulated node and shortened."""

from __future__ import annotations

PROFILES = """\
+-----------------------------------------------------------------------------+
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
|   0  MIG 1g.10gb       19     7/7        9.50       No     14     0     0   |
|                                                             1     0     0   |
+-----------------------------------------------------------------------------+
|   0  MIG 1g.10gb+me    20     1/1        9.50       No     14     1     0   |
|                                                             1     1     1   |
+-----------------------------------------------------------------------------+
|   0  MIG 3g.40gb        9     2/2        39.25      No     42     2     0   |
|                                                             3     0     0   |
+-----------------------------------------------------------------------------+
"""

# Newer versions: two columns wider.
PROFILES_WIDE = """\
+-------------------------------------------------------------------------------+
| GPU instance profiles:                                                        |
| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                                Free/Total   GiB              CE    JPEG  OFA  |
|===============================================================================|
|   0  MIG 1g.24gb+me.all  67     1/1        23.50      No     46     4     4   |
|                                                               1     4     1   |
+-------------------------------------------------------------------------------+
"""

PLACEMENTS = """\
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID 20 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID  9 Placements: {0,4}:4
"""

INSTANCES = """\
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.10gb         19       11          0:1     |
+-------------------------------------------------------+
|   0  MIG 3g.40gb          9        1          4:4     |
+-------------------------------------------------------+
"""

COMPUTE_INSTANCES = """\
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      1       MIG 2c.3g.40gb       1         1          0:2     |
+--------------------------------------------------------------------+
|   0      1       MIG 1c.3g.40gb       0         0          2:1     |
+--------------------------------------------------------------------+
"""

COMPUTE_PROFILES = """\
+--------------------------------------------------------------------------------------+
| Compute instance profiles:                                                           |
| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |
|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |
|         ID                                                          CE    JPEG       |
|======================================================================================|
|   0     11       MIG 1g.10gb          0*     1/1           14        0     0     0   |
|                                                                      1     0         |
+--------------------------------------------------------------------------------------+
|   0      1       MIG 1c.3g.40gb       0      0/3           14        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
|   0      1       MIG 2c.3g.40gb       1      0/1           28        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
|   0      1       MIG 3g.40gb          2*     0/1           42        2     0     0   |
|                                                                      3     0         |
+--------------------------------------------------------------------------------------+
"""

COMPUTE_PLACEMENTS = """\
GPU  0 GI  1 Profile ID  0 Placements: {0,1,2}:1
GPU  0 GI  1 Profile ID  1 Placement : {0}:2
GPU  0 GI  1 Profile ID  2 Placement : {0}:3
"""

LIST = """\
GPU 0: NVIDIA A100 80GB PCIe (UUID: GPU-aaaa)
  MIG 1c.3g.40gb  Device  0: (UUID: MIG-0)
  MIG 2c.3g.40gb  Device  1: (UUID: MIG-1)
GPU 1: NVIDIA A100 80GB PCIe (UUID: GPU-bbbb)
  MIG 1g.10gb     Device  0: (UUID: MIG-2)
"""

QUERY = "0, GPU-aaaa, 8.0, 2\n1, GPU-bbbb, 8.0, 2\n"

LOG = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
    <driver_version>550.163.01</driver_version>
    <cuda_version>12.4</cuda_version>
    <attached_gpus>2</attached_gpus>
    <gpu id="00000001:00:00.0">
        <product_name>NVIDIA A100 80GB PCIe</product_name>
        <product_architecture>Ampere</product_architecture>
        <mig_mode>
            <current_mig>Enabled</current_mig>
            <pending_mig>Enabled</pending_mig>
        </mig_mode>
        <mig_devices>
        <mig_device>
            <index>0</index>
            <gpu_instance_id>1</gpu_instance_id>
            <compute_instance_id>0</compute_instance_id>
            <fb_memory_usage><total>40192 MiB</total></fb_memory_usage>
        </mig_device>
        <mig_device>
            <index>1</index>
            <gpu_instance_id>1</gpu_instance_id>
            <compute_instance_id>1</compute_instance_id>
        </mig_device>
        </mig_devices>
        <serial>1323020000000</serial>
        <uuid>GPU-aaaa</uuid>
        <minor_number>0</minor_number>
        <pci>
            <pci_device_id>20B510DE</pci_device_id>
            <pci_bus_id>00000001:00:00.0</pci_bus_id>
            <pci_sub_system_id>153310DE</pci_sub_system_id>
        </pci>
        <fb_memory_usage>
            <total>81920 MiB</total>
        </fb_memory_usage>
        <processes>
        <process_info>
            <gpu_instance_id>1</gpu_instance_id>
            <compute_instance_id>0</compute_instance_id>
            <pid>4711</pid>
            <type>C</type>
            <process_name>python</process_name>
            <used_memory>100 MiB</used_memory>
        </process_info>
        <process_info>
            <gpu_instance_id>1</gpu_instance_id>
            <compute_instance_id>0</compute_instance_id>
            <pid>4711</pid>
            <type>M+C</type>
            <process_name>python</process_name>
            <used_memory>100 MiB</used_memory>
        </process_info>
        <process_info>
            <gpu_instance_id>N/A</gpu_instance_id>
            <compute_instance_id>N/A</compute_instance_id>
            <pid>42</pid>
            <type>G</type>
            <process_name>[Insufficient Permissions]</process_name>
            <used_memory>N/A</used_memory>
        </process_info>
        </processes>
    </gpu>
</nvidia_smi_log>
"""

BUSY = (
    "is currently being used by one or more other processes (e.g. CUDA application or a monitoring application such as "
    "another instance of nvidia-smi). Please first kill all processes using the device and retry the command or reboot "
    "the system to make MIG mode effective."
)
MODE_ON = """\
Enabled MIG Mode for GPU 00000001:00:00.0

Warning: persistence mode is disabled on device 00000001:00:00.0. See the Known Issues section of the man page.
All done.
"""
MODE_OFF = "Disabled MIG Mode for GPU 00000001:00:00.0\nAll done.\n"
MODE_PENDING_IN_USE = (
    "Warning: MIG mode is in pending enable state for GPU 00000001:00:00.0:In use by another client\n00000001:00:00.0 "
    + BUSY
    + "\nAll done.\n"
)
MODE_PENDING_RESET = """\
Warning: MIG mode is in pending disable state for GPU 00000001:00:00.0:GPU requires reset
Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU 00000001:00:00.0
All done.
"""
MODE_NOT_SUPPORTED = """\
Unable to enable MIG Mode for GPU 00000001:00:00.0: Not Supported
Treating as warning and moving on.
All done.
"""
MODE_NO_PERMISSION = """\
Unable to enable MIG Mode for GPU 00000001:00:00.0: Insufficient Permissions
Terminating early due to previous errors.
"""
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n"
)
RESET = "GPU 00000001:00:00.0 was successfully reset.\nAll done.\n"
RESET_IN_USE = """\
The following GPUs could not be reset:
  GPU 00000001:00:00.0: In use by another client

1 device is currently being used by one or more other processes (e.g., Fabric Manager, CUDA application).
"""
RESET_TOGETHER = (
    "GPU Reset couldn't progress because the specified devices do not meet the reset criterion (e.g. NVLink connected "
    "GPUs must be reset together). Please append the following device indexes to the command line and retry.\n"
)
