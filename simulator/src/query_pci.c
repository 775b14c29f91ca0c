/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Location of a GPU: PCI bus, link and topology. */
#include <stdio.h>

#include "query.h"

static void pci_info(const struct sim_gpu *gpu, nvmlPciInfo_t *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->domain = gpu->pci_domain;
    pci->bus = gpu->pci_bus;
    pci->device = gpu->pci_device;
    pci->pciDeviceId = gpu->pci_device_id;
    pci->pciSubSystemId = gpu->pci_subsystem_id;
    sim_bus_id(gpu, pci->busId);
    /* The legacy form has room for 16 bits of the domain. */
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", gpu->pci_domain & 0xFFFF,
             gpu->pci_bus & 0xFF, gpu->pci_device & 0xFF);
}

#define PCI_INFO(function)                                            \
    nvmlReturn_t function(nvmlDevice_t device, nvmlPciInfo_t *pci)    \
    {                                                                 \
        SIM_ENTER("device=%p", (void *)device);                       \
        const struct sim_gpu *gpu = sim_gpu_or_parent(&call, device); \
        if (!gpu || !pci)                                             \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                  \
        pci_info(gpu, pci);                                           \
        SIM_RETURN(NVML_SUCCESS);                                     \
    }

PCI_INFO(nvmlDeviceGetPciInfo_v3)

/* The struct of versions 1 and 2 ends before the long bus id, so do not write it. */
#define PCI_INFO_SHORT(function)                                      \
    nvmlReturn_t function(nvmlDevice_t device, void *pci)             \
    {                                                                 \
        SIM_ENTER("device=%p", (void *)device);                       \
        const struct sim_gpu *gpu = sim_gpu_or_parent(&call, device); \
        nvmlPciInfo_t full;                                           \
        if (!gpu || !pci)                                             \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                  \
        pci_info(gpu, &full);                                         \
        memcpy(pci, &full, offsetof(nvmlPciInfo_t, busId));           \
        SIM_RETURN(NVML_SUCCESS);                                     \
    }

PCI_INFO_SHORT(nvmlDeviceGetPciInfo)
PCI_INFO_SHORT(nvmlDeviceGetPciInfo_v2)

enum { PCI_CLASS_DISPLAY = 0x03, PCI_SUBCLASS_3D = 0x02 };

nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_v1_t *pci)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu_or_parent(&call, device);
    if (!gpu || !pci)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (pci->version != NVML_VERSION_TAG(nvmlPciInfoExt_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    pci->domain = gpu->pci_domain;
    pci->bus = gpu->pci_bus;
    pci->device = gpu->pci_device;
    pci->pciDeviceId = gpu->pci_device_id;
    pci->pciSubSystemId = gpu->pci_subsystem_id;
    pci->baseClass = PCI_CLASS_DISPLAY;
    pci->subClass = PCI_SUBCLASS_3D;
    sim_bus_id(gpu, pci->busId);
    SIM_RETURN(NVML_SUCCESS);
}

enum { LANES = 16 };

QUERY(nvmlDeviceGetMaxPcieLinkGeneration, unsigned int, true, sim_hardware(gpu)->pcie_generation)
QUERY(nvmlDeviceGetGpuMaxPcieLinkGeneration, unsigned int, true, sim_hardware(gpu)->pcie_generation)
QUERY(nvmlDeviceGetCurrPcieLinkGeneration, unsigned int, true, sim_hardware(gpu)->pcie_generation)
QUERY(nvmlDeviceGetMaxPcieLinkWidth, unsigned int, true, LANES)
QUERY(nvmlDeviceGetCurrPcieLinkWidth, unsigned int, true, LANES)
QUERY(nvmlDeviceGetPcieReplayCounter, unsigned int, true, 0)
QUERY(nvmlDeviceGetIrqNum, unsigned int, true, 64 + gpu->index)

/* Link speeds by generation, in MB/s per lane and as NVML numbers them. */
QUERY(nvmlDeviceGetPcieLinkMaxSpeed, unsigned int, true, sim_hardware(gpu)->pcie_generation)
QUERY(nvmlDeviceGetPcieSpeed, unsigned int, true, 1000u << sim_hardware(gpu)->pcie_generation)

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *value)
{
    SIM_ENTER("device=%p counter=%u", (void *)device, counter);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !value || counter > 1)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *value = 0;
    SIM_RETURN(NVML_SUCCESS);
}
