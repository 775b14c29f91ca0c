/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* GPU settings that root can change: persistence, compute mode, ECC, accounting, power limit. */
#include "query.h"

QUERY(nvmlDeviceGetPersistenceMode, unsigned int, true, gpu->persistence)
QUERY(nvmlDeviceGetComputeMode, unsigned int, true, gpu->compute_mode)
QUERY(nvmlDeviceGetAccountingMode, unsigned int, true, gpu->accounting)
QUERY(nvmlDeviceGetDefaultEccMode, unsigned int, gpu->ecc_supported, NVML_FEATURE_ENABLED)
QUERY(nvmlDeviceGetPowerManagementMode, unsigned int, true, NVML_FEATURE_ENABLED)
QUERY(nvmlDeviceGetPowerManagementLimit, unsigned int, true, gpu->power_limit_mw)
QUERY(nvmlDeviceGetPowerManagementDefaultLimit, unsigned int, true, gpu->power_default_mw)
QUERY(nvmlDeviceGetEnforcedPowerLimit, unsigned int, true, gpu->power_limit_mw)

enum { ACCOUNTED_PROCESSES = 4000 };
QUERY(nvmlDeviceGetAccountingBufferSize, unsigned int, true, ACCOUNTED_PROCESSES)

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !current || !pending)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!gpu->ecc_supported)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *current = gpu->ecc_current;
    *pending = gpu->ecc_pending;
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *lowest,
                                                                     unsigned int *highest)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !lowest || !highest)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *lowest = sim_hardware(gpu)->min_power_w * 1000;
    *highest = gpu->power_default_mw;
    SIM_RETURN(NVML_SUCCESS);
}

/* A change of one setting by root; `valid` and `change` may use `gpu` and `value`. */
#define SETTING(function, valid, change)                              \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int value)    \
    {                                                                 \
        SIM_ENTER_WRITE("device=%p value=%u", (void *)device, value); \
        if (!sim_gpu(&call, device))                                  \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                  \
        if (!sim_privileged())                                        \
            SIM_RETURN(NVML_ERROR_NO_PERMISSION);                     \
        if (!sim_lock(&call))                                         \
            SIM_RETURN(call.failure);                                 \
        struct sim_gpu *gpu = sim_gpu_rw(&call, device);              \
        if (!gpu || !(valid))                                         \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                  \
        change;                                                       \
        SIM_RETURN(sim_commit(&call));                                \
    }

enum { COMPUTE_DEFAULT = 0, COMPUTE_PROHIBITED = 2, COMPUTE_EXCLUSIVE_PROCESS = 3 };

SETTING(nvmlDeviceSetPersistenceMode, value <= NVML_FEATURE_ENABLED, gpu->persistence = value)
SETTING(nvmlDeviceSetAccountingMode, value <= NVML_FEATURE_ENABLED, gpu->accounting = value)
SETTING(nvmlDeviceSetComputeMode,
        value == COMPUTE_DEFAULT || value == COMPUTE_PROHIBITED || value == COMPUTE_EXCLUSIVE_PROCESS,
        gpu->compute_mode = value)
SETTING(nvmlDeviceSetPowerManagementLimit,
        value >= sim_hardware(gpu)->min_power_w * 1000 && value <= gpu->power_default_mw, gpu->power_limit_mw = value)

/* Takes effect at the next reset. */
SETTING(nvmlDeviceSetEccMode, gpu->ecc_supported && value <= NVML_FEATURE_ENABLED, gpu->ecc_pending = value)

enum { POWER_SCOPE_GPU = 0 };
nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(nvmlDevice_t device, nvmlPowerValue_v2_t *limit)
{
    if (!limit)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (limit->version != NVML_VERSION_TAG(nvmlPowerValue_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (limit->powerScope != POWER_SCOPE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    return nvmlDeviceSetPowerManagementLimit(device, limit->powerValueMw);
}

/* Accounting has no history, because simulated processes leave no records. */
nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned int *count, unsigned int *pids)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    (void)pids;
    if (!gpu || !count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!gpu->accounting)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *count = 0;
    SIM_RETURN(NVML_SUCCESS);
}
