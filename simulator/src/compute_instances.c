/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Compute instances of a GPU instance: profiles, placements, creation and destruction. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* In the newest struct version; the others are parts of it. */
static nvmlReturn_t describe(struct sim_call *call, nvmlGpuInstance_t handle, unsigned int constant,
                             unsigned int engines, nvmlComputeInstanceProfileInfo_v3_t *info)
{
    struct sim_target target;
    struct sim_ci_profile profile;
    if (constant >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || engines != NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED ||
        !sim_gpu_instance(call, handle, &target))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_ci_profile(target.gpu, target.gi, constant, &profile))
        return NVML_ERROR_NOT_SUPPORTED;
    const struct sim_profile *shared = &target.gpu->profiles[target.gi->profile];
    *info = (nvmlComputeInstanceProfileInfo_v3_t){
        .id = profile.id,
        .sliceCount = profile.slices,
        .instanceCount = profile.max_instances,
        .multiprocessorCount = profile.multiprocessors,
        .sharedCopyEngineCount = shared->copy_engines,
        .sharedDecoderCount = shared->decoders,
        .sharedEncoderCount = shared->encoders,
        .sharedJpegCount = shared->jpeg,
        .sharedOfaCount = shared->ofa,
        .capabilities = shared->capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_GFX
                            ? NVML_COMPUTE_INSTANCE_PROFILE_CAPS_GFX
                            : 0,
    };
    snprintf(info->name, sizeof(info->name), "MIG %s", profile.name);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t handle, unsigned int constant,
                                                          unsigned int engines, nvmlComputeInstanceProfileInfo_t *info)
{
    SIM_ENTER("gpu_instance=%p profile=%u engines=%u", (void *)handle, constant, engines);
    nvmlComputeInstanceProfileInfo_v3_t all;
    nvmlReturn_t result = info ? describe(&call, handle, constant, engines, &all) : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        memcpy(info, (char *)&all + offsetof(nvmlComputeInstanceProfileInfo_v3_t, id), sizeof(*info));
    SIM_RETURN(result);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t handle, unsigned int constant,
                                                           unsigned int engines,
                                                           nvmlComputeInstanceProfileInfo_v2_t *info)
{
    SIM_ENTER("gpu_instance=%p profile=%u engines=%u", (void *)handle, constant, engines);
    nvmlComputeInstanceProfileInfo_v3_t all;
    nvmlReturn_t result = info ? describe(&call, handle, constant, engines, &all) : NVML_ERROR_INVALID_ARGUMENT;
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    all.version = info->version;
    if (all.version != NVML_VERSION_TAG(nvmlComputeInstanceProfileInfo_v2_t, 2) &&
        all.version != NVML_VERSION_TAG(nvmlComputeInstanceProfileInfo_v3_t, 3))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    memcpy((void *)info, &all, NVML_VERSION_SIZE(all.version)); /* version 3 only adds at the end */
    SIM_RETURN(NVML_SUCCESS);
}

/* Queries of a profile id that require root. */
static nvmlReturn_t profile_by_id(struct sim_call *call, nvmlGpuInstance_t handle, unsigned int id,
                                  struct sim_target *target, struct sim_ci_profile *profile)
{
    if (!sim_gpu_instance(call, handle, target))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    return sim_ci_profile(target->gpu, target->gi, id, profile) ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t handle, unsigned int id,
                                                                 nvmlComputeInstancePlacement_t *placements,
                                                                 unsigned int *count)
{
    SIM_ENTER("gpu_instance=%p profile_id=%u", (void *)handle, id);
    struct sim_target target;
    struct sim_ci_profile profile;
    uint32_t starts[SIM_MAX_STARTS];
    if (!count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = profile_by_id(&call, handle, id, &target, &profile);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    *count = sim_ci_starts(target.gpu, target.gi, profile.slices, starts);
    for (uint32_t i = 0; placements && i < *count; i++)
        placements[i] = (nvmlComputeInstancePlacement_t){starts[i], profile.slices};
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t handle, unsigned int id,
                                                                unsigned int *count)
{
    SIM_ENTER("gpu_instance=%p profile_id=%u", (void *)handle, id);
    struct sim_target target;
    struct sim_ci_profile profile;
    if (!count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = profile_by_id(&call, handle, id, &target, &profile);
    if (result == NVML_SUCCESS)
        *count = sim_ci_remaining(target.gpu, target.gi, profile.slices);
    SIM_RETURN(result);
}

static nvmlReturn_t create(struct sim_call *call, nvmlGpuInstance_t parent, unsigned int id,
                           const nvmlComputeInstancePlacement_t *placement, nvmlComputeInstance_t *handle)
{
    struct sim_target target;
    struct sim_ci_profile profile;
    uint32_t start;
    if (!handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = profile_by_id(call, parent, id, &target, &profile);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_lock(call))
        return call->failure;
    if (!sim_gpu_instance(call, parent, &target)) /* another process took the placement */
        return NVML_ERROR_INVALID_ARGUMENT;

    if (placement) {
        uint32_t starts[SIM_MAX_STARTS];
        uint32_t count = sim_ci_starts(target.gpu, target.gi, profile.slices, starts);
        bool possible = false;
        start = placement->start;
        for (uint32_t i = 0; i < count; i++)
            possible |= starts[i] == start;
        if (!possible || placement->size != profile.slices)
            return NVML_ERROR_INVALID_ARGUMENT;
        if (!sim_ci_fits(target.gpu, target.gi, profile.slices, start))
            return NVML_ERROR_INSUFFICIENT_RESOURCES;
    } else if (!sim_ci_default_start(target.gpu, target.gi, profile.slices, &start)) {
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }

    struct sim_gpu *gpu = &call->copy->gpus[target.gpu->index];
    struct sim_gi *gi = &gpu->gi[target.gi - target.gpu->gi];
    uint32_t free = 0;
    while (gi->ci[free].present)
        free++;
    gi->ci[free] = (struct sim_ci){.present = 1,
                                   .id = free,
                                   .profile = id,
                                   .start = start,
                                   .size = profile.slices,
                                   .serial = ++gpu->next_serial};
    nvmlComputeInstance_t created = sim_ci_handle(gpu, gi, &gi->ci[free]);
    result = sim_commit(call);
    if (result == NVML_SUCCESS)
        *handle = created;
    return result;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t parent, unsigned int id,
                                                  nvmlComputeInstance_t *handle)
{
    SIM_ENTER_WRITE("gpu_instance=%p profile_id=%u", (void *)parent, id);
    SIM_RETURN(create(&call, parent, id, NULL, handle));
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t parent, unsigned int id,
                                                               const nvmlComputeInstancePlacement_t *placement,
                                                               nvmlComputeInstance_t *handle)
{
    SIM_ENTER_WRITE("gpu_instance=%p profile_id=%u placement=%u:%u", (void *)parent, id,
                    placement ? placement->start : 0, placement ? placement->size : 0);
    SIM_RETURN(placement ? create(&call, parent, id, placement, handle) : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t handle)
{
    SIM_ENTER_WRITE("compute_instance=%p", (void *)handle);
    struct sim_target target;
    if (!sim_compute_instance(&call, handle, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!sim_privileged())
        SIM_RETURN(NVML_ERROR_NO_PERMISSION);
    if (!sim_lock(&call))
        SIM_RETURN(call.failure);
    if (!sim_compute_instance(&call, handle, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (sim_busy(call.node, target.gpu->index, target.gi->id, target.ci->id, true))
        SIM_RETURN(NVML_ERROR_IN_USE);
    struct sim_gi *gi = &call.copy->gpus[target.gpu->index].gi[target.gi - target.gpu->gi];
    gi->ci[target.ci->id] = (struct sim_ci){0};
    SIM_RETURN(sim_commit(&call));
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t parent, unsigned int id,
                                                nvmlComputeInstance_t *handles, unsigned int *count)
{
    SIM_ENTER("gpu_instance=%p profile_id=%u", (void *)parent, id);
    struct sim_target target;
    struct sim_ci_profile profile;
    uint32_t found = 0;
    if (!handles || !count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = profile_by_id(&call, parent, id, &target, &profile);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    for (uint32_t i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (target.gi->ci[i].present && target.gi->ci[i].profile == id)
            handles[found++] = sim_ci_handle(target.gpu, target.gi, &target.gi->ci[i]);
    *count = found;
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t parent, unsigned int id,
                                                   nvmlComputeInstance_t *handle)
{
    SIM_ENTER("gpu_instance=%p id=%u", (void *)parent, id);
    struct sim_target target;
    if (!handle || !sim_gpu_instance(&call, parent, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!sim_privileged())
        SIM_RETURN(NVML_ERROR_NO_PERMISSION);
    if (id >= SIM_MAX_COMPUTE_INSTANCES || !target.gi->ci[id].present)
        SIM_RETURN(NVML_ERROR_NOT_FOUND);
    *handle = sim_ci_handle(target.gpu, target.gi, &target.gi->ci[id]);
    SIM_RETURN(NVML_SUCCESS);
}

static nvmlReturn_t information(struct sim_call *call, nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info,
                                bool placement)
{
    struct sim_target target;
    if (!info || !sim_compute_instance(call, handle, &target))
        return NVML_ERROR_INVALID_ARGUMENT;
    info->device = sim_gpu_handle(target.gpu);
    info->gpuInstance = sim_gi_handle(target.gpu, target.gi);
    info->id = target.ci->id;
    info->profileId = target.ci->profile;
    if (placement)
        info->placement = (nvmlComputeInstancePlacement_t){target.ci->start, target.ci->size};
    return NVML_SUCCESS;
}

/* The first version's struct ends before the placement. */
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    SIM_ENTER("compute_instance=%p", (void *)handle);
    SIM_RETURN(information(&call, handle, info, false));
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t handle, nvmlComputeInstanceInfo_t *info)
{
    SIM_ENTER("compute_instance=%p", (void *)handle);
    SIM_RETURN(information(&call, handle, info, true));
}
