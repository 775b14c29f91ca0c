/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The functions of nvsim, which take the path of a node's state: create, show, attach, reset, fault.
 * Each returns an NVML code; nvsim_problem has an error message if there is one.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static __thread char problem[256];

const char *nvsim_problem(void) { return problem; }

static nvmlReturn_t refuse(nvmlReturn_t result, const char *text)
{
    snprintf(problem, sizeof(problem), "%s", text);
    return result;
}

static nvmlReturn_t refuse_errno(const char *path)
{
    snprintf(problem, sizeof(problem), "%.200s: %s", path,
             errno == EPROTO ? "not a simulated node of this build; recreate it" : strerror(errno));
    return errno == ENOENT ? NVML_ERROR_NOT_FOUND : NVML_ERROR_UNKNOWN;
}

/* Lock the node; NULL: see *result. */
static struct sim_node *open_node(const char *path, int *lock, nvmlReturn_t *result)
{
    problem[0] = '\0';
    *lock = sim_lock_path(path);
    struct sim_node *node = *lock >= 0 ? sim_load(path) : NULL;
    if (node)
        return node;
    *result = refuse_errno(path);
    if (*lock >= 0)
        sim_unlock_path(*lock);
    return NULL;
}

/* The first line of a function that changes a node. Its last one is close_node. */
#define OPEN_NODE(path)                                        \
    int lock;                                                  \
    nvmlReturn_t result;                                       \
    struct sim_node *node = open_node((path), &lock, &result); \
    if (!node)                                                 \
        return result

static nvmlReturn_t close_node(const char *path, int lock, struct sim_node *node, nvmlReturn_t result)
{
    if (result == NVML_SUCCESS && sim_store(path, node, false) != 0)
        result = refuse_errno(path);
    free(node);
    sim_unlock_path(lock);
    return result;
}

nvmlReturn_t nvsim_create(const char *path, const char *description)
{
    struct sim_node *node = sim_parse(description, problem);
    if (!node)
        return NVML_ERROR_INVALID_ARGUMENT;
    int lock = sim_lock_path(path);
    if (lock < 0) {
        free(node);
        return refuse_errno(path);
    }
    return close_node(path, lock, node, NVML_SUCCESS);
}

/* Return JSON, to be released with nvsim_free; NULL: see nvsim_problem. */
char *nvsim_show(const char *path)
{
    struct sim_node *node = sim_load(path);
    if (!node) {
        refuse_errno(path);
        return NULL;
    }
    char *text = sim_json(node);
    free(node);
    return text;
}

void nvsim_free(char *text) { free(text); }

static nvmlReturn_t attach(struct sim_node *node, struct sim_process process)
{
    if (process.kind > SIM_PROCESS_CLIENT)
        return refuse(NVML_ERROR_INVALID_ARGUMENT, "no such kind of process");
    if (process.gpu >= node->gpu_count)
        return refuse(NVML_ERROR_NOT_FOUND, "no such GPU");
    if (!process.started)
        return refuse(NVML_ERROR_NOT_FOUND, "no such process");
    const struct sim_gpu *gpu = &node->gpus[process.gpu];
    uint64_t room = gpu->memory_mib;
    if (process.gi != SIM_NONE) {
        const struct sim_gi *gi = sim_gi_by_id(gpu, process.gi);
        if (!gi)
            return refuse(NVML_ERROR_NOT_FOUND, "no such GPU instance");
        for (uint32_t i = 0; process.ci == SIM_NONE && i < SIM_MAX_COMPUTE_INSTANCES; i++)
            if (gi->ci[i].present)
                process.ci = i;
        if (process.ci >= SIM_MAX_COMPUTE_INSTANCES || !gi->ci[process.ci].present)
            return refuse(NVML_ERROR_NOT_FOUND, "no such compute instance");
        room = gpu->profiles[gi->profile].memory_mib;
    } else if (gpu->mode_current && process.kind != SIM_PROCESS_CLIENT) {
        return refuse(NVML_ERROR_INVALID_ARGUMENT, "MIG mode is on: name the GPU instance");
    }
    if (process.memory_mib > room || sim_used_mib(node, process.gpu, process.gi, SIM_NONE) > room - process.memory_mib)
        return refuse(NVML_ERROR_MEMORY, "not enough memory left");
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        if (!node->processes[i].pid || !sim_process_alive(&node->processes[i])) {
            node->processes[i] = process;
            return NVML_SUCCESS;
        }
    }
    return refuse(NVML_ERROR_INSUFFICIENT_RESOURCES, "too many processes");
}

/* gi, ci: SIM_NONE for none; a GI without a CI selects its first CI. */
nvmlReturn_t nvsim_attach(const char *path, uint32_t gpu, uint32_t gi, uint32_t ci, uint32_t pid, uint32_t kind,
                          uint64_t memory_mib, const char *name)
{
    OPEN_NODE(path);
    struct sim_process process = {.pid = pid,
                                  .kind = kind,
                                  .started = sim_process_started((pid_t)pid),
                                  .gpu = gpu,
                                  .gi = gi,
                                  .ci = ci,
                                  .memory_mib = memory_mib};
    snprintf(process.name, sizeof(process.name), "%s", name);
    return close_node(path, lock, node, attach(node, process));
}

/* From one GPU or, with SIM_NONE, from all. */
nvmlReturn_t nvsim_detach(const char *path, uint32_t gpu, uint32_t pid)
{
    OPEN_NODE(path);
    result = refuse(NVML_ERROR_NOT_FOUND, "that process is not attached there");
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        struct sim_process *process = &node->processes[i];
        if (process->pid == pid && (gpu == SIM_NONE || process->gpu == gpu)) {
            *process = (struct sim_process){0};
            result = NVML_SUCCESS;
        }
    }
    return close_node(path, lock, node, result);
}

/* nvidia-smi --gpu-reset. It is not an NVML function; faults, latencies and traces name it "gpuReset". */
nvmlReturn_t nvsim_reset(const char *path, uint32_t index)
{
    struct sim_call call = {.function = "gpuReset", .lock = -1, .gpu = index + 1};
    problem[0] = '\0';
    if (!sim_enter_at(&call, path, false, "gpu=%u", index))
        return sim_leave(&call, call.failure);
    struct sim_node *node = sim_lock(&call);
    if (!node)
        return sim_leave(&call, call.failure);
    if (index >= node->gpu_count)
        return sim_leave(&call, refuse(NVML_ERROR_NOT_FOUND, "no such GPU"));
    struct sim_gpu *gpu = &node->gpus[index];
    if (node->activation == SIM_ACTIVATE_REBOOT)
        return sim_leave(&call, NVML_ERROR_NOT_SUPPORTED);
    if (sim_busy(node, index, SIM_NONE, SIM_NONE, true))
        return sim_leave(&call, NVML_ERROR_IN_USE);
    sim_drop_instances(gpu);
    gpu->mode_current = gpu->mode_pending;
    gpu->ecc_current = gpu->ecc_pending;
    return sim_leave(&call, sim_commit(&call));
}

/* Remove all processes and instances. Boards that keep the mode across a reboot keep it here too. */
nvmlReturn_t nvsim_reboot(const char *path)
{
    OPEN_NODE(path);
    memset(node->processes, 0, sizeof(node->processes));
    for (uint32_t i = 0; i < node->gpu_count; i++) {
        struct sim_gpu *gpu = &node->gpus[i];
        sim_drop_instances(gpu);
        gpu->mode_current = gpu->mode_pending = gpu->mode_persists ? gpu->mode_pending : NVML_DEVICE_MIG_DISABLE;
        gpu->ecc_current = gpu->ecc_pending;
        gpu->persistence = gpu->compute_mode = gpu->accounting = 0;
        gpu->power_limit_mw = gpu->power_default_mw;
    }
    node->boots++;
    return close_node(path, lock, node, NVML_SUCCESS);
}

nvmlReturn_t nvsim_fault(const char *path, const char *function, uint32_t nth, uint32_t always, uint32_t action,
                         int32_t code)
{
    OPEN_NODE(path);
    struct sim_fault fault = {.nth = nth, .always = always != 0, .action = action, .code = code};
    result = NVML_ERROR_INVALID_ARGUMENT;
    if (nth == 0 || action == SIM_FAULT_NONE || action > SIM_FAULT_KILL_AFTER || !*function ||
        snprintf(fault.function, sizeof(fault.function), "%s", function) >= (int)sizeof(fault.function)) {
        refuse(result, "a fault needs a function, a call counted from 1 and an action");
    } else {
        uint32_t i = 0;
        while (i < SIM_MAX_FAULTS && node->faults[i].function[0])
            i++;
        if (i < SIM_MAX_FAULTS) {
            node->faults[i] = fault;
            node->fault_count++;
            result = NVML_SUCCESS;
        } else {
            result = refuse(NVML_ERROR_INSUFFICIENT_RESOURCES, "too many faults; clear them");
        }
    }
    return close_node(path, lock, node, result);
}

nvmlReturn_t nvsim_clear_faults(const char *path)
{
    OPEN_NODE(path);
    memset(node->faults, 0, sizeof(node->faults));
    node->fault_count = 0;
    return close_node(path, lock, node, NVML_SUCCESS);
}

/* Zero removes a function's latency, or all latencies if the function is "". */
nvmlReturn_t nvsim_latency(const char *path, const char *function, uint32_t microseconds)
{
    OPEN_NODE(path);
    uint32_t free_entry = SIM_MAX_LATENCIES;
    result = NVML_SUCCESS;
    for (uint32_t i = 0; i < SIM_MAX_LATENCIES; i++) {
        struct sim_latency *latency = &node->latencies[i];
        if (latency->function[0] && (!*function || strcmp(latency->function, function) == 0)) {
            *latency = (struct sim_latency){0};
            node->latency_count--;
        }
        if (!latency->function[0] && free_entry == SIM_MAX_LATENCIES)
            free_entry = i;
    }
    if (microseconds) {
        struct sim_latency latency = {.microseconds = microseconds};
        if (!*function || free_entry == SIM_MAX_LATENCIES ||
            snprintf(latency.function, sizeof(latency.function), "%s", function) >= (int)sizeof(latency.function)) {
            result = refuse(NVML_ERROR_INVALID_ARGUMENT, "no such function, or too many latencies");
        } else {
            node->latencies[free_entry] = latency;
            node->latency_count++;
        }
    }
    return close_node(path, lock, node, result);
}

nvmlReturn_t nvsim_trace(const char *path, uint32_t on)
{
    OPEN_NODE(path);
    node->tracing = on != 0;
    return close_node(path, lock, node, NVML_SUCCESS);
}
