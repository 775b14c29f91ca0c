/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Handles are numbers that are equal in every process, and are never dereferenced. Each contains its
 * GPU, the instances, and a serial, which invalidates the handle when the instance is destroyed.
 */
#include "sim.h"

_Static_assert(sizeof(uintptr_t) == 8, "a handle holds 64 bits");

enum kind { KIND_GPU = 1, KIND_GI, KIND_CI, KIND_MIG };

/* From the top: 1 bit zero, 3 kind, 8 GPU, 8 GI, 8 CI, 32 serial, 4 zero. */
static uintptr_t pack(enum kind kind, uint32_t gpu, uint32_t gi, uint32_t ci, uint32_t serial)
{
    return (uintptr_t)((uint64_t)kind << 60 | (uint64_t)gpu << 52 | (uint64_t)gi << 44 | (uint64_t)ci << 36 |
                       (uint64_t)serial << 4);
}

nvmlDevice_t sim_gpu_handle(const struct sim_gpu *gpu) { return (nvmlDevice_t)pack(KIND_GPU, gpu->index, 0, 0, 0); }

nvmlGpuInstance_t sim_gi_handle(const struct sim_gpu *gpu, const struct sim_gi *gi)
{
    return (nvmlGpuInstance_t)pack(KIND_GI, gpu->index, gi->id, 0, gi->serial);
}

nvmlComputeInstance_t sim_ci_handle(const struct sim_gpu *gpu, const struct sim_gi *gi, const struct sim_ci *ci)
{
    return (nvmlComputeInstance_t)pack(KIND_CI, gpu->index, gi->id, ci->id, ci->serial);
}

nvmlDevice_t sim_mig_handle(const struct sim_gpu *gpu, const struct sim_gi *gi, const struct sim_ci *ci)
{
    return (nvmlDevice_t)pack(KIND_MIG, gpu->index, gi->id, ci->id, ci->serial);
}

const struct sim_gi *sim_gi_by_id(const struct sim_gpu *gpu, uint32_t id)
{
    for (uint32_t i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->gi[i].present && gpu->gi[i].id == id)
            return &gpu->gi[i];
    return NULL;
}

static bool unpack(struct sim_call *call, uintptr_t handle, enum kind kind, struct sim_target *target)
{
    uint64_t bits = handle;
    uint32_t gpu = bits >> 52 & 0xFF, gi = bits >> 44 & 0xFF, ci = bits >> 36 & 0xFF;
    uint32_t serial = (uint32_t)(bits >> 4);

    if (bits >> 60 != (uint64_t)kind || (bits & 0xF) != 0 || gpu >= call->node->gpu_count)
        return false;
    call->gpu = gpu + 1;
    *target = (struct sim_target){.gpu = &call->node->gpus[gpu]};
    if (kind == KIND_GPU)
        return gi == 0 && ci == 0 && serial == 0;
    target->gi = sim_gi_by_id(target->gpu, gi);
    if (!target->gi)
        return false;
    if (kind == KIND_GI)
        return ci == 0 && serial == target->gi->serial;
    if (ci >= SIM_MAX_COMPUTE_INSTANCES)
        return false;
    target->ci = &target->gi->ci[ci];
    return target->ci->present && serial == target->ci->serial;
}

bool sim_device(struct sim_call *call, nvmlDevice_t device, struct sim_target *target)
{
    return unpack(call, (uintptr_t)device, KIND_GPU, target) || unpack(call, (uintptr_t)device, KIND_MIG, target);
}

const struct sim_gpu *sim_gpu(struct sim_call *call, nvmlDevice_t device)
{
    struct sim_target target;
    return unpack(call, (uintptr_t)device, KIND_GPU, &target) ? target.gpu : NULL;
}

const struct sim_gpu *sim_gpu_or_parent(struct sim_call *call, nvmlDevice_t device)
{
    struct sim_target target;
    return sim_device(call, device, &target) ? target.gpu : NULL;
}

bool sim_gpu_instance(struct sim_call *call, nvmlGpuInstance_t handle, struct sim_target *target)
{
    return unpack(call, (uintptr_t)handle, KIND_GI, target);
}

bool sim_compute_instance(struct sim_call *call, nvmlComputeInstance_t handle, struct sim_target *target)
{
    return unpack(call, (uintptr_t)handle, KIND_CI, target);
}

struct sim_gpu *sim_gpu_rw(struct sim_call *call, nvmlDevice_t device)
{
    const struct sim_gpu *gpu = sim_gpu(call, device);
    return gpu ? &call->copy->gpus[gpu->index] : NULL;
}
