/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Event sets: clients can create them and wait, but a simulated node has no events. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "query.h"

enum {
    EVENT_SINGLE_BIT_ECC = 0x1,
    EVENT_DOUBLE_BIT_ECC = 0x2,
    EVENT_XID = 0x8,
    EVENT_CLOCK = 0x10,
    EVENT_MIG_CONFIGURATION = 0x100,
    EVENTS = EVENT_SINGLE_BIT_ECC | EVENT_DOUBLE_BIT_ECC | EVENT_XID | EVENT_CLOCK
};

typedef struct nvmlEventSet_st {
    unsigned long long types;
} *nvmlEventSet_t;

static unsigned long long supported_events(const struct sim_gpu *gpu)
{
    return gpu->mig_capable ? EVENTS | EVENT_MIG_CONFIGURATION : EVENTS;
}

QUERY(nvmlDeviceGetSupportedEventTypes, unsigned long long, true, supported_events(gpu))

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
    SIM_ENTER("set=%p", (void *)set);
    if (!set)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *set = calloc(1, sizeof **set);
    SIM_RETURN(*set ? NVML_SUCCESS : NVML_ERROR_MEMORY);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    SIM_ENTER("set=%p", (void *)set);
    if (!set)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    free(set);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    SIM_ENTER("device=%p types=%llx", (void *)device, types);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !set)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (types & ~supported_events(gpu))
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    set->types |= types;
    SIM_RETURN(NVML_SUCCESS);
}

static void wait_in_vain(unsigned int milliseconds)
{
    struct timespec left = {.tv_sec = milliseconds / 1000, .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR)
        continue;
}

#define EVENT_SET_WAIT(function)                                                     \
    nvmlReturn_t function(nvmlEventSet_t set, void *data, unsigned int milliseconds) \
    {                                                                                \
        SIM_ENTER("set=%p milliseconds=%u", (void *)set, milliseconds);              \
        if (!set || !data)                                                           \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                                 \
        wait_in_vain(milliseconds);                                                  \
        SIM_RETURN(NVML_ERROR_TIMEOUT);                                              \
    }

EVENT_SET_WAIT(nvmlEventSetWait)
EVENT_SET_WAIT(nvmlEventSetWait_v2)
