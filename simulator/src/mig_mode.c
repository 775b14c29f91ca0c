/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* MIG mode. The driver resets an idle GPU that needs a reset for a mode change (Ampere). With clients,
 * or if the driver cannot reset, the call succeeds, the new mode stays pending, and the activation
 * status contains the reason. Other GPUs (Hopper and later) change immediately or fail. A GPU with
 * instances does not disable the mode: nvidia-smi -mig 0 reports "Unable to disable MIG Mode ...: In
 * use by another client".
 */
#include <string.h>

#include "sim.h"

bool sim_has_instances(const struct sim_gpu *gpu)
{
    for (uint32_t i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->gi[i].present)
            return true;
    return false;
}

void sim_drop_instances(struct sim_gpu *gpu) { memset(gpu->gi, 0, sizeof(gpu->gi)); }

static nvmlReturn_t change(const struct sim_node *node, struct sim_gpu *gpu, uint32_t mode, nvmlReturn_t *status)
{
    bool busy = sim_busy(node, gpu->index, SIM_NONE, SIM_NONE, true);

    *status = NVML_SUCCESS;
    if (gpu->mode_current == mode) { /* cancels a pending change */
        gpu->mode_pending = mode;
        return NVML_SUCCESS;
    }
    if (sim_has_instances(gpu) || (gpu->resetless && busy))
        return NVML_ERROR_IN_USE;
    gpu->mode_pending = mode;
    if (!gpu->resetless && node->activation != SIM_ACTIVATE_AUTO)
        *status = NVML_ERROR_RESET_REQUIRED;
    else if (busy)
        *status = NVML_ERROR_IN_USE;
    else
        gpu->mode_current = mode;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *status)
{
    SIM_ENTER_WRITE("device=%p mode=%u", (void *)device, mode);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || mode > NVML_DEVICE_MIG_ENABLE || !status)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!gpu->mig_capable)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    if (!sim_privileged())
        SIM_RETURN(NVML_ERROR_NO_PERMISSION);
    struct sim_node *node = sim_lock(&call);
    if (!node)
        SIM_RETURN(call.failure);
    nvmlReturn_t activation;
    nvmlReturn_t result = change(node, sim_gpu_rw(&call, device), mode, &activation);
    if (result == NVML_SUCCESS)
        result = sim_commit(&call);
    if (result == NVML_SUCCESS)
        *status = activation;
    SIM_RETURN(result);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !current || !pending)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!gpu->mig_capable)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *current = gpu->mode_current;
    *pending = gpu->mode_pending;
    SIM_RETURN(NVML_SUCCESS);
}
