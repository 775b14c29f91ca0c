/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Processes on GPUs. nvsim attaches them with a real pid, and they disappear when that process ends;
 * the start time distinguishes a reused pid. A client only opens the device (a daemon, a display
 * server): it blocks mode changes and resets, and does not appear in process lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

uint64_t sim_process_started(pid_t pid)
{
    char name[32], text[1024];
    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(name, "re");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[length] = '\0';

    /* The command name may contain any character, so count fields from its closing bracket: state is the
     * 3rd field, start time the 22nd. A zombie does not use a GPU. */
    char *field = strrchr(text, ')');
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X')
        return 0;
    field += 2;
    for (int i = 3; i < 22 && field; i++) {
        field = strchr(field, ' ');
        field = field ? field + 1 : NULL;
    }
    return field ? strtoull(field, NULL, 10) + 1 : 0; /* never 0 for a live process */
}

bool sim_process_alive(const struct sim_process *process)
{
    return process->pid && sim_process_started((pid_t)process->pid) == process->started;
}

static bool is_on(const struct sim_process *process, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    return process->pid && process->gpu == gpu && (gi == SIM_NONE || process->gi == gi) &&
           (ci == SIM_NONE || process->ci == ci) && sim_process_alive(process);
}

bool sim_busy(const struct sim_node *node, uint32_t gpu, uint32_t gi, uint32_t ci, bool clients)
{
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++)
        if ((clients || node->processes[i].kind != SIM_PROCESS_CLIENT) && is_on(&node->processes[i], gpu, gi, ci))
            return true;
    return false;
}

uint64_t sim_used_mib(const struct sim_node *node, uint32_t gpu, uint32_t gi, uint32_t ci)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++)
        if (is_on(&node->processes[i], gpu, gi, ci))
            used += node->processes[i].memory_mib;
    return used;
}

unsigned int sim_processes(const struct sim_node *node, const struct sim_target *target, unsigned int kinds,
                           const struct sim_process *found[SIM_MAX_PROCESSES])
{
    unsigned int count = 0;
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &node->processes[i];
        if (process->kind > SIM_PROCESS_CLIENT || !(kinds & 1u << process->kind)) /* the file may be damaged */
            continue;
        if (is_on(process, target->gpu->index, target->gi ? target->gi->id : SIM_NONE,
                  target->ci ? target->ci->id : SIM_NONE))
            found[count++] = process;
    }
    return count;
}

nvmlReturn_t sim_list_processes(struct sim_call *call, nvmlDevice_t device, unsigned int kinds,
                                const struct sim_process *found[SIM_MAX_PROCESSES], unsigned int *count)
{
    struct sim_target target;
    if (!sim_device(call, device, &target))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!target.ci && target.gpu->mode_current && !sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    unsigned int room = *count;
    *count = sim_processes(call->node, &target, kinds, found);
    return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* With too little room, the first processes are returned. */
static nvmlReturn_t list(struct sim_call *call, nvmlDevice_t device, uint32_t kind, unsigned int *count, void *infos,
                         bool with_instances)
{
    const struct sim_process *found[SIM_MAX_PROCESSES];
    if (!count || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    unsigned int room = *count;
    nvmlReturn_t result = sim_list_processes(call, device, 1u << kind, found, count);
    if (result != NVML_SUCCESS && result != NVML_ERROR_INSUFFICIENT_SIZE)
        return result;
    for (unsigned int i = 0; i < *count && i < room; i++) {
        if (with_instances)
            ((nvmlProcessInfo_v2_t *)infos)[i] = (nvmlProcessInfo_v2_t){
                found[i]->pid, found[i]->memory_mib << 20, found[i]->gi, found[i]->ci};
        else
            ((nvmlProcessInfo_v1_t *)infos)[i] = (nvmlProcessInfo_v1_t){found[i]->pid, found[i]->memory_mib << 20};
    }
    return result;
}

#define PROCESS_LIST(function, type, kind, with_instances)                                   \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *infos)              \
    {                                                                                        \
        SIM_ENTER("device=%p count=%u", (void *)device, count ? *count : 0);                 \
        SIM_RETURN(list(&call, device, kind, count, infos, with_instances));                 \
    }

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t, SIM_PROCESS_COMPUTE, false)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, SIM_PROCESS_COMPUTE, true)
PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, SIM_PROCESS_COMPUTE, true)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t, SIM_PROCESS_GRAPHICS, false)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t, SIM_PROCESS_GRAPHICS, true)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_v2_t, SIM_PROCESS_GRAPHICS, true)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t, SIM_PROCESS_MPS, false)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t, SIM_PROCESS_MPS, true)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_v2_t, SIM_PROCESS_MPS, true)

nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
    static const unsigned int kinds[] = {
        [NVML_PROCESS_MODE_COMPUTE] = 1u << SIM_PROCESS_COMPUTE,
        [NVML_PROCESS_MODE_GRAPHICS] = 1u << SIM_PROCESS_GRAPHICS,
        [NVML_PROCESS_MODE_MPS] = 1u << SIM_PROCESS_MPS,
        [NVML_PROCESS_MODE_ALL] = SIM_PROCESSES_LISTED,
    };
    SIM_ENTER("device=%p mode=%u", (void *)device, list ? list->mode : 0);
    const struct sim_process *found[SIM_MAX_PROCESSES];
    struct sim_target target;

    if (!list || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (list->version != NVML_VERSION_TAG(nvmlProcessDetailList_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (list->mode > NVML_PROCESS_MODE_ALL || (list->numProcArrayEntries && !list->procArray))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    unsigned int room = list->numProcArrayEntries;
    nvmlReturn_t result = sim_list_processes(&call, device, kinds[list->mode], found, &list->numProcArrayEntries);
    if (result == NVML_ERROR_NO_PERMISSION)
        SIM_RETURN(result);
    for (unsigned int i = 0; i < list->numProcArrayEntries && i < room; i++)
        list->procArray[i] = (nvmlProcessDetail_v1_t){found[i]->pid, found[i]->memory_mib << 20, found[i]->gi,
                                                      found[i]->ci, 0};
    SIM_RETURN(result);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    SIM_ENTER("pid=%u", pid);
    if (!name || length == 0)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &call.node->processes[i];
        if (process->pid == pid && sim_process_alive(process)) {
            snprintf(name, length, "%s", process->name);
            SIM_RETURN(NVML_SUCCESS);
        }
    }
    SIM_RETURN(NVML_ERROR_NOT_FOUND);
}
