/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The placement rules of GPU instances and compute instances. They use only the GPU's state. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

const struct sim_profile *sim_profile_by_id(const struct sim_gpu *gpu, uint32_t id, uint32_t *constant)
{
    for (uint32_t i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++) {
        if (gpu->profiles[i].present && gpu->profiles[i].id == id) {
            if (constant)
                *constant = i;
            return &gpu->profiles[i];
        }
    }
    return NULL;
}

static uint64_t units(uint32_t start, uint32_t size) { return ((1ull << size) - 1) << start; }

static uint64_t occupied(const struct sim_gpu *gpu)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->gi[i].present)
            taken |= units(gpu->gi[i].start, gpu->gi[i].size);
    return taken;
}

/* Media engines of a profile. The placements do not contain these limits. */
enum media { MEDIA_SHARE, MEDIA_EXTENDED /* +me */, MEDIA_ALL /* +me.all */, MEDIA_NONE /* -me */ };

static enum media media(uint32_t constant)
{
    switch (constant) {
    case NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV1:
    case NVML_GPU_INSTANCE_PROFILE_2_SLICE_REV1:
        return MEDIA_EXTENDED;
    case NVML_GPU_INSTANCE_PROFILE_1_SLICE_ALL_ME:
    case NVML_GPU_INSTANCE_PROFILE_2_SLICE_ALL_ME:
        return MEDIA_ALL;
    case NVML_GPU_INSTANCE_PROFILE_1_SLICE_NO_ME:
    case NVML_GPU_INSTANCE_PROFILE_2_SLICE_NO_ME:
        return MEDIA_NONE;
    default:
        return MEDIA_SHARE;
    }
}

/* At most one +me per GPU; together with +me.all, only -me is allowed. */
static bool media_allows(enum media present, enum media added)
{
    if (present == MEDIA_ALL)
        return added == MEDIA_NONE;
    if (added == MEDIA_ALL)
        return present == MEDIA_NONE;
    return !(present == MEDIA_EXTENDED && added == MEDIA_EXTENDED);
}

/* All limits except the placement. */
static bool room_for(const struct sim_gpu *gpu, uint32_t constant)
{
    const struct sim_profile *profile = &gpu->profiles[constant];
    uint32_t instances = 0, same = 0, slices = 0;

    if (!profile->present)
        return false;
    for (uint32_t i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
        const struct sim_gi *gi = &gpu->gi[i];
        if (!gi->present)
            continue;
        if (!media_allows(media(gi->profile), media(constant)))
            return false;
        instances++;
        same += gi->profile == constant;
        slices += gpu->profiles[gi->profile].slices;
    }
    return instances < gpu->max_gpu_instances && instances < SIM_MAX_GPU_INSTANCES && same < profile->max_instances &&
           slices + profile->slices <= gpu->compute_slices;
}

static bool is_start(const struct sim_profile *profile, uint32_t start)
{
    for (uint32_t i = 0; i < profile->start_count; i++)
        if (profile->starts[i] == start)
            return true;
    return false;
}

bool sim_gi_fits(const struct sim_gpu *gpu, uint32_t constant, uint32_t start)
{
    const struct sim_profile *profile = &gpu->profiles[constant];
    return room_for(gpu, constant) && is_start(profile, start) && !(occupied(gpu) & units(start, profile->size));
}

/* Placements as units, of one profile or of several. */
struct places {
    uint32_t count;
    uint64_t units[NVML_GPU_INSTANCE_PROFILE_COUNT * SIM_MAX_STARTS];
};

static void add_place(struct places *places, uint32_t start, uint32_t size)
{
    places->units[places->count++] = units(start, size);
}

/* The driver selects the placement that blocks the fewest possible placements, and the lowest of
 * several. On an A100, seven 1g get 6, 4, 5, 0, 1, 2, 3. Therefore the order of creation matters:
 * after 1g, 1g, 2g there is no room for a 3g, but 3g, 1g, 2g, 1g fit. */
static bool least_blocking(const struct places *own, const struct places *all, uint64_t taken, uint32_t *start)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < own->count; i++) {
        uint32_t cost = 0;
        if (own->units[i] & taken)
            continue;
        for (uint32_t p = 0; p < all->count; p++)
            cost += !(all->units[p] & taken) && (all->units[p] & own->units[i]);
        if (cost < least) {
            least = cost;
            *start = (uint32_t)__builtin_ctzll(own->units[i]);
        }
    }
    return least != UINT32_MAX;
}

static void add_gi_places(struct places *places, const struct sim_profile *profile)
{
    for (uint32_t i = 0; profile->present && i < profile->start_count; i++)
        add_place(places, profile->starts[i], profile->size);
}

bool sim_gi_default_start(const struct sim_gpu *gpu, uint32_t constant, uint32_t *start)
{
    struct places own = {0}, all = {0};
    if (!room_for(gpu, constant))
        return false;
    add_gi_places(&own, &gpu->profiles[constant]);
    for (uint32_t p = 0; p < NVML_GPU_INSTANCE_PROFILE_COUNT; p++)
        add_gi_places(&all, &gpu->profiles[p]);
    return least_blocking(&own, &all, occupied(gpu), start);
}

/* Return how many more instances of this profile fit. */
uint32_t sim_gi_remaining(const struct sim_gpu *gpu, uint32_t constant)
{
    struct sim_gpu trial = *gpu;
    const struct sim_profile *profile = &trial.profiles[constant];
    uint32_t count = 0;

    /* Placements of one profile are equal intervals, so a greedy search from the left finds the maximum. */
    for (uint32_t at = 0; at < gpu->memory_units; at++) {
        if (!sim_gi_fits(&trial, constant, at))
            continue;
        for (uint32_t i = 0; i < SIM_MAX_GPU_INSTANCES; i++) {
            if (!trial.gi[i].present) {
                trial.gi[i] = (struct sim_gi){.present = 1, .profile = constant, .start = at, .size = profile->size};
                count++;
                break;
            }
        }
    }
    return count;
}

/* An id is a node of a binary tree over the grid: 0 is the whole, 1 and 2 are the halves, 3 to 6 the
 * quarters, 7 to 14 the eighths. Most boards count from the left. On the A100 the halves are swapped,
 * so that 1 is 4:4, 5 is 0:2 and 9 is 6:1. */
uint32_t sim_gi_new_id(const struct sim_gpu *gpu, uint32_t start, uint32_t size)
{
    uint32_t nodes = gpu->memory_units / size;
    uint32_t swap = gpu->architecture == SIM_AMPERE && gpu->memory_units == 8 ? nodes / 2 : 0;
    return nodes - 1 + (start / size + swap) % nodes;
}

static uint32_t slices_of_ci(uint32_t constant)
{
    static const uint32_t slices[NVML_COMPUTE_INSTANCE_PROFILE_COUNT] = {
        [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE] = 1, [NVML_COMPUTE_INSTANCE_PROFILE_2_SLICE] = 2,
        [NVML_COMPUTE_INSTANCE_PROFILE_3_SLICE] = 3, [NVML_COMPUTE_INSTANCE_PROFILE_4_SLICE] = 4,
        [NVML_COMPUTE_INSTANCE_PROFILE_6_SLICE] = 6, [NVML_COMPUTE_INSTANCE_PROFILE_7_SLICE] = 7,
        [NVML_COMPUTE_INSTANCE_PROFILE_8_SLICE] = 8, [NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1] = 1,
    };
    return constant < NVML_COMPUTE_INSTANCE_PROFILE_COUNT ? slices[constant] : 0;
}

/* A compute instance of n slices has n times the multiprocessors of the smallest GPU instance. One
 * over all slices has all multiprocessors of the GPU instance, which may be more. If a GPU instance of
 * one slice has more (1g.20gb on Hopper: 26 instead of 16), there are two profiles, the larger as
 * 1_SLICE_REV1. All instances have profiles with one and two slices; only instances with seven or more
 * have three and four (a 4g has no 3c, recorded on the A100). */
bool sim_ci_profile(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t constant, struct sim_ci_profile *out)
{
    const struct sim_profile *whole = &gpu->profiles[gi->profile];
    uint32_t slices = slices_of_ci(constant);
    uint32_t each = gpu->profiles[NVML_GPU_INSTANCE_PROFILE_1_SLICE].multiprocessors;
    bool two_kinds = whole->slices == 1 && whole->multiprocessors > each;

    if (slices == 0 || slices > whole->slices)
        return false;
    if (slices != whole->slices && slices > (whole->slices >= 7 ? 4u : 2u))
        return false;
    if (constant == NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE_REV1 && !two_kinds)
        return false;

    bool all = slices == whole->slices && !(two_kinds && constant == NVML_COMPUTE_INSTANCE_PROFILE_1_SLICE);
    out->id = constant;
    out->slices = slices;
    out->multiprocessors = all ? whole->multiprocessors : slices * each;
    out->max_instances = whole->slices / slices;
    if (all)
        snprintf(out->name, sizeof(out->name), "%s", whole->name);
    else
        snprintf(out->name, sizeof(out->name), "%uc.%s", slices, whole->name);
    return true;
}

/* Compute slices are aligned: 2 at even positions, 3 and 4 at multiples of four. */
uint32_t sim_ci_starts(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices,
                       uint32_t starts[SIM_MAX_STARTS])
{
    uint32_t step = slices <= 2 ? slices : slices <= 4 ? 4 : 8;
    uint32_t count = 0;
    for (uint32_t start = 0; start + slices <= gpu->profiles[gi->profile].slices; start += step)
        starts[count++] = start;
    return count;
}

static uint64_t occupied_by_ci(const struct sim_gi *gi)
{
    uint64_t taken = 0;
    for (uint32_t i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++)
        if (gi->ci[i].present)
            taken |= units(gi->ci[i].start, gi->ci[i].size);
    return taken;
}

bool sim_ci_fits(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices, uint32_t start)
{
    uint32_t starts[SIM_MAX_STARTS];
    uint32_t count = sim_ci_starts(gpu, gi, slices, starts);
    for (uint32_t i = 0; i < count; i++)
        if (starts[i] == start)
            return !(occupied_by_ci(gi) & units(start, slices));
    return false;
}

static void add_ci_places(struct places *places, const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices)
{
    uint32_t starts[SIM_MAX_STARTS];
    uint32_t count = sim_ci_starts(gpu, gi, slices, starts);
    for (uint32_t i = 0; i < count; i++)
        add_place(places, starts[i], slices);
}

bool sim_ci_default_start(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices, uint32_t *start)
{
    struct places own = {0}, all = {0};
    struct sim_ci_profile other;
    add_ci_places(&own, gpu, gi, slices);
    for (uint32_t p = 0; p < NVML_COMPUTE_INSTANCE_PROFILE_COUNT; p++)
        if (sim_ci_profile(gpu, gi, p, &other))
            add_ci_places(&all, gpu, gi, other.slices);
    return least_blocking(&own, &all, occupied_by_ci(gi), start);
}

uint32_t sim_ci_remaining(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices)
{
    uint32_t starts[SIM_MAX_STARTS], free = 0;
    uint32_t count = sim_ci_starts(gpu, gi, slices, starts);
    for (uint32_t i = 0; i < count; i++)
        free += !(occupied_by_ci(gi) & units(starts[i], slices));
    return free;
}
