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

/* Processes of one kind on the handle's GPU or MIG device, in order of attachment. For a GPU with
 * MIG, the list covers all instances and requires root. */
static nvmlReturn_t list(struct sim_call *call, nvmlDevice_t device, uint32_t kind, unsigned int *count, void *infos,
                         bool with_instances)
{
    struct sim_target target;
    unsigned int found = 0, room;

    if (!count || !sim_device(call, device, &target) || (*count && !infos))
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!target.ci && target.gpu->mode_current && !sim_privileged())
        return NVML_ERROR_NO_PERMISSION;
    room = *count;
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &call->node->processes[i];
        if (process->kind != kind || !is_on(process, target.gpu->index, target.gi ? target.gi->id : SIM_NONE,
                                            target.ci ? target.ci->id : SIM_NONE))
            continue;
        if (found < room && with_instances)
            ((nvmlProcessInfo_v2_t *)infos)[found] = (nvmlProcessInfo_v2_t){
                process->pid, process->memory_mib << 20, process->gi, process->ci};
        else if (found < room)
            ((nvmlProcessInfo_v1_t *)infos)[found] = (nvmlProcessInfo_v1_t){process->pid, process->memory_mib << 20};
        found++;
    }
    *count = found;
    return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define PROCESS_LIST(function, type, kind, with_instances)                                   \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, type *infos);             \
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
    SIM_ENTER("device=%p mode=%u", (void *)device, list ? list->mode : 0);
    struct sim_target target;
    unsigned int found = 0;

    if (!list || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (list->version != NVML_VERSION_TAG(nvmlProcessDetailList_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (list->mode > NVML_PROCESS_MODE_ALL || (list->numProcArrayEntries && !list->procArray))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!target.ci && target.gpu->mode_current && !sim_privileged())
        SIM_RETURN(NVML_ERROR_NO_PERMISSION);
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &call.node->processes[i];
        if (process->kind == SIM_PROCESS_CLIENT ||
            (list->mode != NVML_PROCESS_MODE_ALL && process->kind != list->mode) ||
            !is_on(process, target.gpu->index, target.gi ? target.gi->id : SIM_NONE,
                   target.ci ? target.ci->id : SIM_NONE))
            continue;
        if (found < list->numProcArrayEntries)
            list->procArray[found] = (nvmlProcessDetail_v1_t){process->pid, process->memory_mib << 20, process->gi,
                                                              process->ci, 0};
        found++;
    }
    bool enough = found <= list->numProcArrayEntries;
    list->numProcArrayEntries = found;
    SIM_RETURN(enough ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE);
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
