/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The frame of every NVML call: checks the initialization, injects faults, delays and kills, and
 * writes the trace. No lock is held during a delay.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sim.h"

static pthread_mutex_t library_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int initialisations;
static char state_path[SIM_PATH];
static long pretended_uid = -1; /* NVSIM_UID; -1: not set */

static void before_fork(void) { pthread_mutex_lock(&library_mutex); }
static void after_fork(void) { pthread_mutex_unlock(&library_mutex); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/* The first initialization selects the node of the process, the last shutdown releases it. */
nvmlReturn_t sim_library_open(void)
{
    nvmlReturn_t result = NVML_SUCCESS;
    pthread_mutex_lock(&library_mutex);
    if (initialisations == 0) {
        const char *path = getenv("NVSIM_STATE");
        const char *uid = getenv("NVSIM_UID");
        const struct sim_node *node;
        struct sim_snapshot *snapshot = NULL;
        if (!path || !*path)
            path = SIM_DEFAULT_STATE;
        if (strlen(path) < sizeof(state_path)) {
            strcpy(state_path, path);
            snapshot = sim_snapshot_take(state_path, &node);
        }
        pretended_uid = uid && *uid ? strtol(uid, NULL, 10) : -1;
        sim_devices_open(state_path);
        if (snapshot)
            sim_snapshot_drop(snapshot);
        else /* no such node: the same code as without a kernel driver */
            result = errno == EPROTO ? NVML_ERROR_LIB_RM_VERSION_MISMATCH : NVML_ERROR_DRIVER_NOT_LOADED;
    }
    if (result == NVML_SUCCESS)
        initialisations++;
    pthread_mutex_unlock(&library_mutex);
    return result;
}

nvmlReturn_t sim_library_close(void)
{
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;
    pthread_mutex_lock(&library_mutex);
    if (initialisations > 0) {
        initialisations--;
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&library_mutex);
    return result;
}

bool sim_privileged(void)
{
    return (pretended_uid >= 0 ? pretended_uid : (long)geteuid()) == 0 && sim_devices_allow_changes();
}

static bool selects(const char *selector, const char *function, bool write)
{
    if (strcmp(selector, "*") == 0)
        return true;
    return strcmp(selector, function) == 0 || (write && strcmp(selector, "write") == 0);
}

static bool armed(const struct sim_fault *fault)
{
    return fault->function[0] && (fault->always || fault->seen < fault->nth);
}

/* Count the call in every matching fault; the first fault that fires takes effect. The counters
 * are in the state, so that "the third create" counts the calls of all processes. */
static void count_faults(struct sim_call *call, bool write)
{
    bool selected = false;
    for (uint32_t i = 0; i < SIM_MAX_FAULTS; i++)
        selected |= armed(&call->node->faults[i]) && selects(call->node->faults[i].function, call->function, write);
    if (!selected)
        return;
    int lock = sim_lock_path(call->path);
    if (lock < 0)
        return;
    struct sim_node *node = sim_load(call->path);
    for (uint32_t i = 0; node && i < SIM_MAX_FAULTS; i++) {
        struct sim_fault *fault = &node->faults[i];
        if (!armed(fault) || !selects(fault->function, call->function, write))
            continue;
        fault->seen++;
        if (fault->seen >= fault->nth && call->fault == SIM_FAULT_NONE) {
            call->fault = fault->action;
            call->fault_code = fault->code;
        }
        if (!armed(fault))
            node->fault_count--;
    }
    if (node)
        sim_store(call->path, node, false);
    free(node);
    sim_unlock_path(lock);
}

static void wait_latency(const struct sim_call *call, bool write)
{
    uint64_t microseconds = 0;
    for (uint32_t i = 0; i < SIM_MAX_LATENCIES; i++) {
        const struct sim_latency *latency = &call->node->latencies[i];
        if (latency->function[0] && selects(latency->function, call->function, write))
            microseconds += latency->microseconds;
    }
    struct timespec left = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
    while (microseconds && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

bool sim_enter_at(struct sim_call *call, const char *path, bool write, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call->arguments, sizeof(call->arguments), format, arguments);
    va_end(arguments);

    if (!path) {
        pthread_mutex_lock(&library_mutex);
        if (initialisations > 0)
            path = state_path;
        pthread_mutex_unlock(&library_mutex);
        if (!path) {
            call->failure = NVML_ERROR_UNINITIALIZED;
            return false;
        }
    }
    call->path = path;
    call->snapshot = sim_snapshot_take(path, &call->node);
    if (call->snapshot && (call->node->fault_count || call->node->latency_count)) {
        if (call->node->fault_count)
            count_faults(call, write);
        if (call->node->latency_count)
            wait_latency(call, write);
        if (call->fault == SIM_FAULT_KILL_BEFORE)
            kill(getpid(), SIGKILL);
        sim_snapshot_drop(call->snapshot); /* the state may have changed during the delay */
        call->snapshot = sim_snapshot_take(path, &call->node);
    }
    if (!call->snapshot) {
        call->failure = NVML_ERROR_UNKNOWN;
        return false;
    }
    call->tracing = call->node->tracing;
    if (call->fault == SIM_FAULT_RETURN) {
        call->failure = (nvmlReturn_t)call->fault_code;
        return false;
    }
    return true;
}

static void trace(const struct sim_call *call, nvmlReturn_t result)
{
    char name[SIM_PATH], line[512], text[sizeof(call->arguments)];
    struct timespec now;

    if (snprintf(name, sizeof(name), "%s.trace", call->path) >= (int)sizeof(name))
        return;
    size_t length = strlen(call->arguments);
    for (size_t i = 0; i <= length; i++) { /* clients may pass arbitrary bytes */
        char c = call->arguments[i];
        text[i] = c == '\0' || (c >= ' ' && c <= '~' && c != '"' && c != '\\') ? c : '?';
    }
    clock_gettime(CLOCK_REALTIME, &now);
    int size = snprintf(line, sizeof(line),
                        "{\"time\": %lld.%06ld, \"pid\": %d, \"thread\": %ld, \"function\": \"%s\", \"gpu\": %d, "
                        "\"arguments\": \"%s\", \"result\": %d, \"implemented\": %s}\n",
                        (long long)now.tv_sec, now.tv_nsec / 1000, (int)getpid(), (long)syscall(SYS_gettid),
                        call->function, call->gpu ? (int)call->gpu - 1 : -1, text, (int)result,
                        call->stub ? "false" : "true");
    int file = open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    ssize_t ignored = write(file, line, (size_t)size);
    (void)ignored;
    close(file);
}

nvmlReturn_t sim_leave(struct sim_call *call, nvmlReturn_t result)
{
    if (call->lock >= 0)
        sim_unlock(call);
    if (call->fault == SIM_FAULT_RETURN_AFTER)
        result = (nvmlReturn_t)call->fault_code;
    if (call->tracing)
        trace(call, result);
    if (call->fault == SIM_FAULT_KILL_AFTER)
        kill(getpid(), SIGKILL);
    if (call->snapshot)
        sim_snapshot_drop(call->snapshot);
    return result;
}

nvmlReturn_t sim_stub(const char *function)
{
    struct sim_call call = {.function = function, .lock = -1, .stub = true};
    return sim_leave(&call, sim_enter_at(&call, NULL, false, " ") ? NVML_ERROR_NOT_SUPPORTED : call.failure);
}
