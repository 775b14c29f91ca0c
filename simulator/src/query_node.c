/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Data of the node: processor affinity, S-class units, excluded GPUs. */
#define _GNU_SOURCE
#include <sched.h>

#include "query.h"

/* One socket: all processors are local to all GPUs. */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set)
{
    SIM_ENTER("device=%p words=%u", (void *)device, words);
    cpu_set_t processors;
    if (!words || !set || !sim_gpu_or_parent(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    memset(set, 0, words * sizeof *set);
    if (sched_getaffinity(0, sizeof processors, &processors))
        SIM_RETURN(NVML_ERROR_UNKNOWN);
    for (size_t i = 0; i < words * 8 * sizeof *set && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &processors))
            set[i / (8 * sizeof *set)] |= 1ul << i % (8 * sizeof *set);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words, unsigned long *set,
                                         unsigned int scope)
{
    SIM_ENTER("device=%p words=%u scope=%u", (void *)device, words, scope);
    if (!words || !set || scope > 1 || !sim_gpu_or_parent(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    memset(set, 0, words * sizeof *set);
    set[0] = 1;
    SIM_RETURN(NVML_SUCCESS);
}

enum { TOPOLOGY_INTERNAL = 0, TOPOLOGY_NODE = 40 };
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other, unsigned int *level)
{
    SIM_ENTER("device=%p other=%p", (void *)device, (void *)other);
    const struct sim_gpu *first = sim_gpu(&call, device), *second = sim_gpu(&call, other);
    if (!first || !second || !level)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *level = first == second ? TOPOLOGY_INTERNAL : TOPOLOGY_NODE;
    SIM_RETURN(NVML_SUCCESS);
}

#define NONE_OF_THEM(function)                       \
    nvmlReturn_t function(unsigned int *count)       \
    {                                                \
        SIM_ENTER("count=%p", (void *)count);        \
        if (!count)                                  \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT); \
        *count = 0;                                  \
        SIM_RETURN(NVML_SUCCESS);                    \
    }

NONE_OF_THEM(nvmlUnitGetCount)
NONE_OF_THEM(nvmlGetExcludedDeviceCount)

nvmlReturn_t nvmlSystemGetHicVersion(unsigned int *count, void *entries)
{
    SIM_ENTER("count=%p", (void *)count);
    (void)entries;
    if (!count)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *count = 0;
    SIM_RETURN(NVML_SUCCESS);
}
