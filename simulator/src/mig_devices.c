/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* MIG devices: the view of compute instances for all users. */
#include "sim.h"

uint32_t sim_max_mig_devices(const struct sim_gpu *gpu)
{
    return gpu->mig_capable && gpu->mode_current ? gpu->compute_slices : 0;
}

/* Numbered consecutively by GPU instance id, then compute instance id. */
bool sim_mig_device(const struct sim_gpu *gpu, uint32_t index, struct sim_target *target)
{
    for (uint32_t id = 0; id < 256; id++) {
        const struct sim_gi *gi = sim_gi_by_id(gpu, id);
        for (uint32_t c = 0; gi && c < SIM_MAX_COMPUTE_INSTANCES; c++) {
            if (gi->ci[c].present && sim_visible_ci(gpu, gi, &gi->ci[c]) && index-- == 0) {
                *target = (struct sim_target){gpu, gi, &gi->ci[c]};
                return true;
            }
        }
    }
    return false;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    if (!is || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *is = target.ci != NULL;
    SIM_RETURN(NVML_SUCCESS);
}

/* For handles of MIG devices only. A GPU without MIG has none. */
static nvmlReturn_t mig_device(struct sim_call *call, nvmlDevice_t device, struct sim_target *target)
{
    if (!sim_device(call, device, target))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (target->ci)
        return NVML_SUCCESS;
    return target->gpu->mig_capable ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    if (!id)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = mig_device(&call, device, &target);
    if (result == NVML_SUCCESS)
        *id = target.gi->id;
    SIM_RETURN(result);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    if (!id)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = mig_device(&call, device, &target);
    if (result == NVML_SUCCESS)
        *id = target.ci->id;
    SIM_RETURN(result);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *count = sim_max_mig_devices(gpu);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig)
{
    SIM_ENTER("device=%p index=%u", (void *)device, index);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    struct sim_target target;
    if (!gpu || !mig)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!gpu->mig_capable)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    if (gpu->mode_current && index >= sim_max_mig_devices(gpu))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!sim_mig_device(gpu, index, &target))
        SIM_RETURN(NVML_ERROR_NOT_FOUND);
    *mig = sim_mig_handle(gpu, target.gi, target.ci);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device)
{
    SIM_ENTER("device=%p", (void *)mig);
    struct sim_target target;
    if (!device)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = mig_device(&call, mig, &target);
    if (result == NVML_SUCCESS)
        *device = sim_gpu_handle(target.gpu);
    SIM_RETURN(result);
}

static nvmlReturn_t attributes_of(struct sim_call *call, nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    struct sim_target target;
    struct sim_ci_profile profile;
    if (!attributes)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = mig_device(call, device, &target);
    if (result != NVML_SUCCESS)
        return result == NVML_ERROR_INVALID_ARGUMENT && target.gpu ? NVML_ERROR_NOT_SUPPORTED : result;
    const struct sim_profile *whole = &target.gpu->profiles[target.gi->profile];
    if (!sim_ci_profile(target.gpu, target.gi, target.ci->profile, &profile))
        return NVML_ERROR_UNKNOWN;
    *attributes = (nvmlDeviceAttributes_t){
        .multiprocessorCount = profile.multiprocessors,
        .sharedCopyEngineCount = whole->copy_engines,
        .sharedDecoderCount = whole->decoders,
        .sharedEncoderCount = whole->encoders,
        .sharedJpegCount = whole->jpeg,
        .sharedOfaCount = whole->ofa,
        .gpuInstanceSliceCount = whole->slices,
        .computeInstanceSliceCount = profile.slices,
        .memorySizeMB = whole->memory_mib,
    };
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    SIM_ENTER("device=%p", (void *)device);
    SIM_RETURN(attributes_of(&call, device, attributes));
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes)
{
    SIM_ENTER("device=%p", (void *)device);
    SIM_RETURN(attributes_of(&call, device, attributes));
}
