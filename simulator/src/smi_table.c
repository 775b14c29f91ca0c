/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The table of internal functions that nvidia-smi uses besides the public NVML interface. The slots
 * were found by experiment: with a separate function in each slot, the calls, arguments and output of
 * the binaries 535.261.03 and 550.163.01 were recorded.
 */
#include <stdio.h>

#include "query.h"

/* Handle by index. The enumeration of the GPUs ends with NOT_FOUND. */
static nvmlReturn_t smi_handle_by_index(uintptr_t index, nvmlDevice_t *device)
{
    SIM_ENTER("index=%u", (unsigned int)index);
    if (!device)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    const struct sim_gpu *gpu = sim_visible_at(call.node, (uint32_t)index);
    if (!gpu)
        SIM_RETURN(NVML_ERROR_NOT_FOUND);
    *device = sim_gpu_handle(gpu);
    SIM_RETURN(NVML_SUCCESS);
}

/* nvidia-smi compares a PCI address, "[domain:]bus:device.function", with that of every GPU. */
static nvmlReturn_t smi_parse_bus_id(const char *text, unsigned int *domain, unsigned int *bus, unsigned int *device,
                                     unsigned int *function)
{
    char rest;
    SIM_ENTER("text=%.40s", text ? text : "");
    if (!text || !domain || !bus || !device || !function)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (sscanf(text, "%x:%x:%x.%x%c", domain, bus, device, function, &rest) == 4)
        SIM_RETURN(NVML_SUCCESS);
    *domain = 0;
    SIM_RETURN(sscanf(text, "%x:%x.%x%c", bus, device, function, &rest) == 3 ? NVML_SUCCESS
                                                                             : NVML_ERROR_INVALID_ARGUMENT);
}

static nvmlReturn_t smi_place_of_index(uintptr_t index, unsigned int *domain, unsigned int *bus, unsigned int *device)
{
    SIM_ENTER("index=%u", (unsigned int)index);
    const struct sim_gpu *gpu = sim_visible_at(call.node, (uint32_t)index);
    if (!gpu || !domain || !bus || !device)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *domain = gpu->pci_domain;
    *bus = gpu->pci_bus;
    *device = gpu->pci_device;
    SIM_RETURN(NVML_SUCCESS);
}

/* Processes with names. A process under MPS is in two lists, as compute and as MPS. */
struct smi_process {
    uint32_t pid;
    uint64_t used_memory;
    uint32_t gi, ci;
    uint64_t protected_memory;
    char name[4096];
};
_Static_assert(sizeof(struct smi_process) == 4128, "nvidia-smi's entries have this size");

static nvmlReturn_t list_processes(struct sim_call *call, nvmlDevice_t device, unsigned int kinds, unsigned int *count,
                                   struct smi_process *list)
{
    const struct sim_process *found[SIM_MAX_PROCESSES];
    if (!count || !list)
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = *count;
    nvmlReturn_t result = sim_list_processes(call, device, kinds, found, count);
    if (result != NVML_SUCCESS && result != NVML_ERROR_INSUFFICIENT_SIZE)
        return result;
    for (unsigned int i = 0; i < *count && i < room; i++) {
        list[i] = (struct smi_process){.pid = found[i]->pid,
                                       .used_memory = found[i]->memory_mib << 20,
                                       .gi = found[i]->gi,
                                       .ci = found[i]->ci};
        snprintf(list[i].name, sizeof list[i].name, "%s", found[i]->name);
    }
    return result;
}

#define PROCESS_LIST(function, kinds)                                                                \
    static nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, struct smi_process *list) \
    {                                                                                                \
        SIM_ENTER("device=%p", (void *)device);                                                      \
        SIM_RETURN(list_processes(&call, device, (kinds), count, list));                             \
    }

PROCESS_LIST(smi_compute_processes, 1u << SIM_PROCESS_COMPUTE | 1u << SIM_PROCESS_MPS)
PROCESS_LIST(smi_mps_processes, 1u << SIM_PROCESS_MPS)
PROCESS_LIST(smi_graphics_processes, 1u << SIM_PROCESS_GRAPHICS)

static QUERY(smi_host_link_generation, unsigned int, true, sim_hardware(gpu)->pcie_generation)
static QUERY(smi_enforced_power_limit, unsigned int, true, gpu->power_limit_mw)
static QUERY(smi_margin, int, sim_has_margin(gpu), sim_margin(call.node, gpu))
static QUERY(smi_addressing_mode, unsigned int, true, 0) /* none: memory is not shared with the host */
static QUERY(smi_sparse_mode, unsigned int, true, 0)
static QUERY(smi_is_primary, unsigned int, true, 0)

static nvmlReturn_t smi_gpu_part_number(nvmlDevice_t device, char *text, uintptr_t length)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    char part[32];
    if (!gpu || !text)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    snprintf(part, sizeof part, "%04X-895-A1", gpu->pci_device_id >> 16);
    SIM_RETURN(query_text(text, (unsigned int)length, part));
}

/* A reset: check for a fabric, find the GPUs that must be reset together, and reset them at once. */
static nvmlReturn_t smi_no_fabric(unsigned int *active)
{
    if (active)
        *active = 0;
    return NVML_SUCCESS;
}

static nvmlReturn_t smi_nothing(void)
{
    return NVML_SUCCESS;
}

/* One return code per GPU. If one fails, nvidia-smi lists them. */
static nvmlReturn_t smi_reset(uintptr_t count, const nvmlDevice_t *devices, nvmlReturn_t *results)
{
    uint32_t indexes[SIM_MAX_GPUS];
    char path[SIM_PATH];
    nvmlReturn_t outcome = NVML_SUCCESS;
    SIM_ENTER("count=%u", (unsigned int)count);
    if (!count || count > SIM_MAX_GPUS || !devices || !results)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!sim_privileged())
        SIM_RETURN(NVML_ERROR_NO_PERMISSION);
    for (size_t i = 0; i < count; i++) {
        const struct sim_gpu *gpu = sim_gpu(&call, devices[i]);
        if (!gpu)
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
        indexes[i] = gpu->index;
    }
    snprintf(path, sizeof path, "%s", call.path);
    for (size_t i = 0; i < count; i++) {
        results[i] = nvsim_reset(path, indexes[i]);
        if (results[i] != NVML_SUCCESS)
            outcome = NVML_ERROR_UNKNOWN;
    }
    SIM_RETURN(outcome);
}

/* Starts with its size in bytes. An empty slot is not supported by this driver. */
static const void *const table[256] = {
    [0] = (const void *)(256 * sizeof(void *)),
    [12] = smi_parse_bus_id,
    [20] = smi_is_primary,
    [26] = smi_nothing, /* nvidia-smi logs through the library */
    [75] = smi_place_of_index,
    [81] = smi_handle_by_index,
    [108] = smi_enforced_power_limit,
    [168] = smi_reset,
    [169] = smi_no_fabric,
    [182] = smi_nothing, /* create a group of GPUs that are reset together */
    [183] = smi_nothing, /* additional members of the group: none */
    [184] = smi_nothing, /* delete the group */
    [197] = smi_nothing, /* prepare a reset */
    [213] = smi_compute_processes,
    [214] = smi_mps_processes,
    [215] = smi_graphics_processes,
    [230] = smi_host_link_generation,
    [231] = smi_gpu_part_number,
    [240] = smi_margin,
    [242] = smi_addressing_mode,
    [243] = smi_sparse_mode, /* in 535 */
    [249] = smi_sparse_mode, /* in 550 */
};

nvmlReturn_t nvmlInternalGetExportTable(const void **found, const void *identifier)
{
    static const unsigned char known[16] = {0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e,
                                            0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4};
    SIM_ENTER("found=%p", (void *)found);
    if (!found || !identifier)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (memcmp(identifier, known, sizeof known))
        SIM_RETURN(NVML_ERROR_NOT_FOUND);
    *found = table;
    SIM_RETURN(NVML_SUCCESS);
}
