/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Memory: size, usage and health. */
#include "query.h"

static const uint64_t MIB = 1024 * 1024;

/* Memory that the driver reserves is neither used nor free. Memory belongs to the GPU instance, and its compute
 * instances share it.
 */
static void memory_of(const struct sim_call *call, const struct sim_target *target, nvmlMemory_v2_t *memory)
{
    const struct sim_gpu *gpu = target->gpu;
    uint64_t total = target->gi ? gpu->profiles[target->gi->profile].memory_mib : gpu->memory_mib;
    uint64_t reserved = target->gi ? 0 : gpu->memory_mib / 128;
    uint64_t used = sim_used_mib(call->node, gpu->index, target->gi ? target->gi->id : SIM_NONE, SIM_NONE);
    if (used > total - reserved)
        used = total - reserved;
    memory->total = total * MIB;
    memory->reserved = reserved * MIB;
    memory->used = used * MIB;
    memory->free = (total - reserved - used) * MIB;
}

/* Version 1 counts reserved memory as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    nvmlMemory_v2_t found;
    if (!memory || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    memory_of(&call, &target, &found);
    *memory = (nvmlMemory_t){.total = found.total, .free = found.free, .used = found.used + found.reserved};
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    if (!memory || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (memory->version != NVML_VERSION_TAG(nvmlMemory_v2_t, 2)) /* this function predates ARGUMENT_VERSION_MISMATCH */
        SIM_RETURN(NVML_ERROR_FUNCTION_NOT_FOUND);
    memory_of(&call, &target, memory);
    SIM_RETURN(NVML_SUCCESS);
}

/* An instance's share of the aperture is its placement's share of the grid, minus one page. */
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    if (!memory || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    uint64_t total = sim_hardware(target.gpu)->bar1_mib;
    uint64_t used = target.gi ? 0 : 1;
    if (target.gi)
        total = total * target.gi->size / target.gpu->memory_units - 1;
    memory->bar1Total = total * MIB;
    memory->bar1Used = used * MIB;
    memory->bar1Free = (total - used) * MIB;
    SIM_RETURN(NVML_SUCCESS);
}

/* No protected memory: confidential computing is off. */
nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory)
{
    SIM_ENTER("device=%p", (void *)device);
    if (!memory || !sim_gpu(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    memset(memory, 0, sizeof *memory);
    SIM_RETURN(NVML_SUCCESS);
}

/* From Ampere on, rows are remapped; older GPUs retire pages. A simulated GPU is healthy. */
static bool remaps_rows(const struct sim_gpu *gpu)
{
    return gpu->architecture >= SIM_AMPERE && gpu->ecc_supported;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
                                                  unsigned int *uncorrectable, unsigned int *pending,
                                                  unsigned int *failed)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !correctable || !uncorrectable || !pending || !failed)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!remaps_rows(gpu))
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *correctable = *uncorrectable = *pending = *failed = 0;
    SIM_RETURN(NVML_SUCCESS);
}

QUERY(nvmlDeviceGetRowRemapperHistogram, nvmlRowRemapperHistogramValues_t, remaps_rows(gpu),
      ((nvmlRowRemapperHistogramValues_t){.max = gpu->architecture >= SIM_HOPPER ? 2560 : 640}))

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, unsigned int cause, unsigned int *count,
                                                  unsigned long long *addresses)
{
    SIM_ENTER("device=%p cause=%u", (void *)device, cause);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    (void)addresses;
    if (!gpu || !count || cause > 1)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (remaps_rows(gpu) || !gpu->ecc_supported)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *count = 0;
    SIM_RETURN(NVML_SUCCESS);
}

QUERY(nvmlDeviceGetRetiredPagesPendingStatus, unsigned int, gpu->ecc_supported && !remaps_rows(gpu), 0)

/* ECC errors. With MIG mode enabled, volatile counters are per instance, and only those of
 * uncorrectable errors outside the device memory exist.
 */
enum { ERROR_CORRECTED, ERROR_UNCORRECTED };
enum { COUNT_VOLATILE, COUNT_AGGREGATE };
enum { MEMORY_DRAM = 2, MEMORY_SRAM = 7 };

static nvmlReturn_t count_errors(const struct sim_target *target, unsigned int error, unsigned int counter,
                                 unsigned long long *count)
{
    if (!count || error > ERROR_UNCORRECTED || counter > COUNT_AGGREGATE)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!target->gpu->ecc_supported || !target->gpu->ecc_current)
        return NVML_ERROR_NOT_SUPPORTED;
    if (target->ci ? error != ERROR_UNCORRECTED || counter != COUNT_VOLATILE
                   : target->gpu->mode_current && counter == COUNT_VOLATILE)
        return NVML_ERROR_NOT_SUPPORTED;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, unsigned int error, unsigned int counter,
                                                    unsigned long long *count)
{
    SIM_ENTER("device=%p error=%u counter=%u", (void *)device, error, counter);
    struct sim_target target;
    if (!sim_device(&call, device, &target) || target.ci)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    SIM_RETURN(count_errors(&target, error, counter, count));
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, unsigned int error, unsigned int counter,
                                                        unsigned int location, unsigned long long *count)
{
    SIM_ENTER("device=%p error=%u counter=%u location=%u", (void *)device, error, counter, location);
    struct sim_target target;
    if (!sim_device(&call, device, &target) || location > MEMORY_SRAM)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    /* From Turing on, there are two counters: for the device memory and for the GPU's internal memories. */
    if (location == MEMORY_DRAM ? target.ci != NULL : location != MEMORY_SRAM)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    SIM_RETURN(count_errors(&target, error, counter, count));
}

nvmlReturn_t nvmlDeviceClearEccErrorCounts(nvmlDevice_t device, unsigned int counter)
{
    SIM_ENTER_WRITE("device=%p counter=%u", (void *)device, counter);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || counter > COUNT_AGGREGATE)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!gpu->ecc_supported)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    SIM_RETURN(sim_privileged() ? NVML_SUCCESS : NVML_ERROR_NO_PERMISSION);
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_v1_t *status)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !status)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (status->version != NVML_VERSION_TAG(nvmlEccSramErrorStatus_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (!remaps_rows(gpu))
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *status = (nvmlEccSramErrorStatus_v1_t){.version = status->version};
    SIM_RETURN(NVML_SUCCESS);
}
