/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* GPU instances: profiles, placements, creation and destruction. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

/* All users may query profiles of a MIG-capable GPU. Some drivers support it only with the mode enabled. */
static nvmlReturn_t profiles_of(struct sim_call *call, nvmlDevice_t device, const struct sim_gpu **gpu)
{
    *gpu = sim_gpu(call, device);
    if (!*gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!(*gpu)->mig_capable)
        return NVML_ERROR_NOT_SUPPORTED;
    if ((call->node->quirks & SIM_QUIRK_PROFILES_NEED_MIG) && !(*gpu)->mode_current)
        return NVML_ERROR_NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* Only root may manage instances, on a GPU with the mode enabled. */
static nvmlReturn_t managed(struct sim_call *call, nvmlDevice_t device, const struct sim_gpu **gpu)
{
    *gpu = sim_gpu(call, device);
    if (!*gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!(*gpu)->mig_capable || !(*gpu)->mode_current)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    return NVML_SUCCESS;
}

static nvmlReturn_t profile_by_constant(struct sim_call *call, nvmlDevice_t device, unsigned int constant,
                                        const struct sim_profile **profile)
{
    const struct sim_gpu *gpu;
    if (constant >= call->node->gi_profile_count)
        return NVML_ERROR_INVALID_ARGUMENT; /* clients enumerate profiles until they get this code */
    nvmlReturn_t result = profiles_of(call, device, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    *profile = &gpu->profiles[constant];
    return (*profile)->present ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/* The fields that all struct versions have. */
#define FIGURES(profile)                               \
    .id = (profile)->id,                               \
    .sliceCount = (profile)->slices,                   \
    .instanceCount = (profile)->max_instances,         \
    .multiprocessorCount = (profile)->multiprocessors, \
    .copyEngineCount = (profile)->copy_engines,        \
    .decoderCount = (profile)->decoders,               \
    .encoderCount = (profile)->encoders,               \
    .jpegCount = (profile)->jpeg,                      \
    .ofaCount = (profile)->ofa,                        \
    .memorySizeMB = (profile)->memory_mib

/* Fill the struct version in the first field. All versions are at least as large as that field. */
static nvmlReturn_t describe(const struct sim_profile *profile, void *info)
{
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    unsigned int version;

    snprintf(name, sizeof(name), "MIG %s", profile->name);
    memcpy(&version, info, sizeof(version));
    if (version == NVML_VERSION_TAG(nvmlGpuInstanceProfileInfo_v2_t, 2)) {
        nvmlGpuInstanceProfileInfo_v2_t *v2 = info;
        *v2 = (nvmlGpuInstanceProfileInfo_v2_t){
            .version = version,
            FIGURES(profile),
            .isP2pSupported = !!(profile->capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_P2P),
        };
        memcpy(v2->name, name, sizeof(v2->name));
        return NVML_SUCCESS;
    }
    if (version == NVML_VERSION_TAG(nvmlGpuInstanceProfileInfo_v3_t, 3)) {
        nvmlGpuInstanceProfileInfo_v3_t *v3 = info;
        *v3 = (nvmlGpuInstanceProfileInfo_v3_t){
            .version = version,
            FIGURES(profile),
            .capabilities = profile->capabilities,
        };
        memcpy(v3->name, name, sizeof(v3->name));
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int constant,
                                                 nvmlGpuInstanceProfileInfo_t *info)
{
    SIM_ENTER("device=%p profile=%u", (void *)device, constant);
    const struct sim_profile *profile;
    if (!info)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = profile_by_constant(&call, device, constant, &profile);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    *info = (nvmlGpuInstanceProfileInfo_t){
        FIGURES(profile),
        .isP2pSupported = !!(profile->capabilities & NVML_GPU_INSTANCE_PROFILE_CAPS_P2P),
    };
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int constant,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info)
{
    SIM_ENTER("device=%p profile=%u", (void *)device, constant);
    const struct sim_profile *profile;
    if (!info)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = profile_by_constant(&call, device, constant, &profile);
    SIM_RETURN(result == NVML_SUCCESS ? describe(profile, info) : result);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info)
{
    SIM_ENTER("device=%p profile_id=%u", (void *)device, id);
    const struct sim_gpu *gpu;
    if (!info)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = profiles_of(&call, device, &gpu);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    const struct sim_profile *profile = sim_profile_by_id(gpu, id, NULL);
    SIM_RETURN(profile ? describe(profile, info) : NVML_ERROR_NOT_SUPPORTED);
}

static nvmlReturn_t possible_placements(struct sim_call *call, nvmlDevice_t device, unsigned int id,
                                        nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    const struct sim_gpu *gpu;
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = profiles_of(call, device, &gpu);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    const struct sim_profile *profile = sim_profile_by_id(gpu, id, NULL);
    if (!profile)
        return NVML_ERROR_NOT_SUPPORTED;
    for (uint32_t i = 0; placements && i < profile->start_count; i++)
        placements[i] = (nvmlGpuInstancePlacement_t){profile->starts[i], profile->size};
    *count = profile->start_count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
                                                        nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    SIM_ENTER("device=%p profile_id=%u", (void *)device, id);
    SIM_RETURN(possible_placements(&call, device, id, placements, count));
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
                                                           nvmlGpuInstancePlacement_t *placements, unsigned int *count)
{
    SIM_ENTER("device=%p profile_id=%u", (void *)device, id);
    SIM_RETURN(possible_placements(&call, device, id, placements, count));
}

nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id, unsigned int *count)
{
    SIM_ENTER("device=%p profile_id=%u", (void *)device, id);
    const struct sim_gpu *gpu;
    uint32_t constant;
    if (!count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = managed(&call, device, &gpu);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    if (!sim_profile_by_id(gpu, id, &constant))
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *count = sim_gi_remaining(gpu, constant);
    SIM_RETURN(NVML_SUCCESS);
}

/* Use the given placement, or without one the driver's default. */
static nvmlReturn_t create(struct sim_call *call, nvmlDevice_t device, unsigned int id,
                           const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *handle)
{
    const struct sim_gpu *seen;
    uint32_t constant, start;
    if (!handle)
        return NVML_ERROR_INVALID_ARGUMENT;
    nvmlReturn_t result = managed(call, device, &seen);
    if (result != NVML_SUCCESS)
        return result;
    if (!sim_lock(call))
        return call->failure;
    struct sim_gpu *gpu = sim_gpu_rw(call, device);
    if (!gpu->mode_current) /* another process disabled MIG mode */
        return NVML_ERROR_NOT_SUPPORTED;

    const struct sim_profile *profile = sim_profile_by_id(gpu, id, &constant);
    if (!profile)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (placement) {
        bool possible = false;
        start = placement->start;
        for (uint32_t i = 0; i < profile->start_count; i++)
            possible |= profile->starts[i] == start;
        if (!possible || placement->size != profile->size)
            return NVML_ERROR_INVALID_ARGUMENT;
        if (!sim_gi_fits(gpu, constant, start))
            return NVML_ERROR_INSUFFICIENT_RESOURCES;
    } else if (!sim_gi_default_start(gpu, constant, &start)) {
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }

    uint32_t slot = 0;
    while (gpu->gi[slot].present)
        slot++;
    struct sim_gi *gi = &gpu->gi[slot];
    *gi = (struct sim_gi){.present = 1,
                          .id = sim_gi_new_id(gpu, start, profile->size),
                          .profile = constant,
                          .start = start,
                          .size = profile->size,
                          .serial = ++gpu->next_serial};
    nvmlGpuInstance_t created = sim_gi_handle(gpu, gi);
    result = sim_commit(call);
    if (result == NVML_SUCCESS)
        *handle = created;
    return result;
}

nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handle)
{
    SIM_ENTER_WRITE("device=%p profile_id=%u", (void *)device, id);
    SIM_RETURN(create(&call, device, id, NULL, handle));
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *handle)
{
    SIM_ENTER_WRITE("device=%p profile_id=%u placement=%u:%u", (void *)device, id, placement ? placement->start : 0,
                    placement ? placement->size : 0);
    SIM_RETURN(placement ? create(&call, device, id, placement, handle) : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t handle)
{
    SIM_ENTER_WRITE("gpu_instance=%p", (void *)handle);
    struct sim_target target;
    if (!sim_gpu_instance(&call, handle, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!sim_privileged())
        SIM_RETURN(NVML_ERROR_NO_PERMISSION);
    if (!sim_lock(&call))
        SIM_RETURN(call.failure);
    if (!sim_gpu_instance(&call, handle, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (target.gi->ci[i].present)
            SIM_RETURN(NVML_ERROR_IN_USE);
    if (sim_busy(call.node, target.gpu->index, target.gi->id, SIM_NONE, true))
        SIM_RETURN(NVML_ERROR_IN_USE);
    struct sim_gpu *gpu = &call.copy->gpus[target.gpu->index];
    gpu->gi[target.gi - target.gpu->gi] = (struct sim_gi){0};
    SIM_RETURN(sim_commit(&call));
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handles,
                                       unsigned int *count)
{
    SIM_ENTER("device=%p profile_id=%u", (void *)device, id);
    const struct sim_gpu *gpu;
    uint32_t constant, found = 0;
    if (!handles || !count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = managed(&call, device, &gpu);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    if (!sim_profile_by_id(gpu, id, &constant))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t next = 0; next < 256; next++) { /* ordered by id */
        const struct sim_gi *gi = sim_gi_by_id(gpu, next);
        if (gi && gi->profile == constant)
            handles[found++] = sim_gi_handle(gpu, gi);
    }
    *count = found;
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *handle)
{
    SIM_ENTER("device=%p id=%u", (void *)device, id);
    const struct sim_gpu *gpu;
    if (!handle)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = managed(&call, device, &gpu);
    if (result != NVML_SUCCESS)
        SIM_RETURN(result);
    const struct sim_gi *gi = sim_gi_by_id(gpu, id);
    if (!gi)
        SIM_RETURN(NVML_ERROR_NOT_FOUND);
    *handle = sim_gi_handle(gpu, gi);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t handle, nvmlGpuInstanceInfo_t *info)
{
    SIM_ENTER("gpu_instance=%p", (void *)handle);
    struct sim_target target;
    if (!info || !sim_gpu_instance(&call, handle, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *info = (nvmlGpuInstanceInfo_t){
        .device = sim_gpu_handle(target.gpu),
        .id = target.gi->id,
        .profileId = target.gpu->profiles[target.gi->profile].id,
        .placement = {target.gi->start, target.gi->size},
    };
    SIM_RETURN(NVML_SUCCESS);
}
