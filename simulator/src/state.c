/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The node's state: one file that is replaced atomically. Readers do not lock; they reuse their
 * snapshot until the file changes. Writers lock a separate file, change a copy, and rename the copy
 * over the state. If a process is killed, the state is either the old or the new one, and the kernel
 * releases the lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim.h"

struct sim_snapshot {
    struct sim_node *node;
    struct stat status; /* of the source file */
    void *pin;          /* an unused mapping of that file, so that its inode is not reused */
    unsigned int users; /* one per reading call, and one for the latest snapshot */
};

enum { PIN_SIZE = 1 };

static pthread_mutex_t latest_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_snapshot *latest;

/* Without these handlers, a fork while another thread holds the mutex would leave it locked in the child. */
static void before_fork(void) { pthread_mutex_lock(&latest_mutex); }
static void after_fork(void) { pthread_mutex_unlock(&latest_mutex); }
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

uint32_t sim_layout(void)
{
    return SIM_LAYOUT << 24 | (uint32_t)((sizeof(struct sim_node) * 31 + sizeof(struct sim_gpu)) & 0xFFFFFF);
}

size_t sim_node_size(uint32_t gpus) { return sizeof(struct sim_node) + gpus * sizeof(struct sim_gpu); }

/* Check the invariants of a state: texts are terminated, and indices are within bounds. */
#define ENDS(text) (memchr((text), '\0', sizeof(text)) != NULL)

static bool sound_gi(const struct sim_gpu *gpu, const struct sim_gi *gi)
{
    if (gi->profile >= NVML_GPU_INSTANCE_PROFILE_COUNT || !gpu->profiles[gi->profile].present || gi->size == 0 ||
        gi->size > gpu->memory_units || gi->start > gpu->memory_units - gi->size)
        return false;
    for (uint32_t i = 0; i < SIM_MAX_COMPUTE_INSTANCES; i++) {
        const struct sim_ci *ci = &gi->ci[i];
        if (ci->present && (ci->id != i || ci->profile >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT || ci->size == 0 ||
                            ci->size > SIM_MAX_COMPUTE_INSTANCES || ci->start > SIM_MAX_COMPUTE_INSTANCES - ci->size))
            return false;
    }
    return true;
}

static bool sound_gpu(const struct sim_gpu *gpu, uint32_t index)
{
    if (gpu->index != index || gpu->recorded_count > SIM_MAX_RECORDED || !ENDS(gpu->uuid) || !ENDS(gpu->name) ||
        !ENDS(gpu->board) || !ENDS(gpu->serial) || !ENDS(gpu->part_number) || !ENDS(gpu->vbios) ||
        !ENDS(gpu->fabric_cluster) || sim_gap(gpu))
        return false;
    for (uint32_t i = 0; i < gpu->recorded_count; i++)
        if (!ENDS(gpu->recorded[i].uuid))
            return false;
    for (uint32_t i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++)
        if (gpu->profiles[i].present && (!gpu->mig_capable || !ENDS(gpu->profiles[i].name)))
            return false;
    for (uint32_t i = 0; i < SIM_MAX_GPU_INSTANCES; i++)
        if (gpu->gi[i].present && !sound_gi(gpu, &gpu->gi[i]))
            return false;
    return true;
}

static bool sound(const struct sim_node *node)
{
    if (!ENDS(node->driver_version) || !ENDS(node->nvml_version))
        return false;
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++)
        if (!ENDS(node->processes[i].name))
            return false;
    for (uint32_t i = 0; i < SIM_MAX_FAULTS; i++)
        if (!ENDS(node->faults[i].function) || node->faults[i].action > SIM_FAULT_KILL_AFTER)
            return false;
    for (uint32_t i = 0; i < SIM_MAX_LATENCIES; i++)
        if (!ENDS(node->latencies[i].function))
            return false;
    for (uint32_t i = 0; i < node->gpu_count; i++)
        if (!sound_gpu(&node->gpus[i], i))
            return false;
    return true;
}

static bool well_formed(const struct sim_node *node, size_t size)
{
    return size >= sizeof(struct sim_node) && memcmp(node->magic, SIM_MAGIC, sizeof(node->magic)) == 0 &&
           node->layout == sim_layout() && node->gpu_count <= SIM_MAX_GPUS && node->size == size &&
           size == sim_node_size(node->gpu_count) && sound(node);
}

static bool read_all(int file, void *memory, size_t size)
{
    char *next = memory;
    while (size > 0) {
        ssize_t got = read(file, next, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        next += got;
        size -= (size_t)got;
    }
    return true;
}

static void release(struct sim_snapshot *snapshot) /* with the mutex held, or before other threads exist */
{
    if (!snapshot || --snapshot->users > 0)
        return;
    if (snapshot->pin && snapshot->pin != MAP_FAILED)
        munmap(snapshot->pin, PIN_SIZE);
    free(snapshot->node);
    free(snapshot);
}

/* Read and check an open file; NULL: errno. */
static struct sim_node *read_node(int file, struct stat *status)
{
    struct sim_node *node = NULL;
    if (fstat(file, status) != 0)
        return NULL;
    if (status->st_size > 0 && (size_t)status->st_size <= sim_node_size(SIM_MAX_GPUS) &&
        (node = malloc((size_t)status->st_size)) != NULL &&
        read_all(file, node, (size_t)status->st_size) && well_formed(node, (size_t)status->st_size))
        return node;
    free(node);
    errno = EPROTO;
    return NULL;
}

static struct sim_snapshot *read_snapshot(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct sim_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot) {
        snapshot->users = 1;
        snapshot->node = read_node(file, &snapshot->status);
        snapshot->pin = mmap(NULL, PIN_SIZE, PROT_NONE, MAP_PRIVATE, file, 0);
    }
    int reason = errno;
    close(file);
    if (snapshot && snapshot->node && snapshot->pin != MAP_FAILED)
        return snapshot;
    release(snapshot);
    errno = reason;
    return NULL;
}

/* The library never overwrites the file in place, but a user may restore a copy that way. */
static bool unchanged(const struct stat *now, const struct stat *then)
{
    return now->st_ino == then->st_ino && now->st_dev == then->st_dev && now->st_size == then->st_size &&
           now->st_mtim.tv_sec == then->st_mtim.tv_sec && now->st_mtim.tv_nsec == then->st_mtim.tv_nsec;
}

struct sim_snapshot *sim_snapshot_take(const char *path, const struct sim_node **node)
{
    struct stat status;
    struct sim_snapshot *snapshot = NULL;

    pthread_mutex_lock(&latest_mutex);
    if (stat(path, &status) == 0) {
        if (latest && unchanged(&status, &latest->status)) {
            snapshot = latest;
        } else if ((snapshot = read_snapshot(path)) != NULL) {
            release(latest);
            latest = snapshot;
        }
        if (snapshot) {
            snapshot->users++;
            *node = snapshot->node;
        }
    }
    pthread_mutex_unlock(&latest_mutex);
    return snapshot;
}

void sim_snapshot_drop(struct sim_snapshot *snapshot)
{
    pthread_mutex_lock(&latest_mutex);
    release(snapshot);
    pthread_mutex_unlock(&latest_mutex);
}

static bool beside(const char *path, const char *suffix, char name[SIM_PATH])
{
    int length = snprintf(name, SIM_PATH, "%s%s", path, suffix);
    if (length > 0 && length < SIM_PATH)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

int sim_lock_path(const char *path)
{
    char name[SIM_PATH];
    if (!beside(path, ".lock", name))
        return -1;
    int lock = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return -1;
    while (flock(lock, LOCK_EX) != 0) {
        if (errno != EINTR) {
            int reason = errno;
            close(lock);
            errno = reason;
            return -1;
        }
    }
    return lock;
}

void sim_unlock_path(int lock)
{
    /* Unlock explicitly: close does not release the lock while a forked child has a copy of the descriptor. */
    flock(lock, LOCK_UN);
    close(lock);
}

static bool write_all(int file, const void *memory, size_t size)
{
    const char *next = memory;
    while (size > 0) {
        ssize_t put = write(file, next, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        next += put;
        size -= (size_t)put;
    }
    return true;
}

struct sim_node *sim_load(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    struct stat status;
    struct sim_node *node = read_node(file, &status);
    int reason = errno;
    close(file);
    errno = reason;
    return node;
}

int sim_store(const char *path, struct sim_node *node, bool die)
{
    char name[SIM_PATH];
    if (!beside(path, ".new", name))
        return -1;
    node->changes++;
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return -1;
    bool written = write_all(file, node, node->size);
    if (close(file) != 0)
        written = false;
    if (written && die)
        kill(getpid(), SIGKILL);
    if (written && rename(name, path) == 0)
        return 0;
    int reason = errno;
    unlink(name);
    errno = reason;
    return -1;
}

static nvmlReturn_t refusal(void)
{
    switch (errno) {
    case EACCES:
    case EPERM:
    case EROFS:
        return NVML_ERROR_NO_PERMISSION;
    case ENOMEM:
        return NVML_ERROR_MEMORY;
    default:
        return NVML_ERROR_UNKNOWN;
    }
}

struct sim_node *sim_lock(struct sim_call *call)
{
    call->lock = sim_lock_path(call->path);
    if (call->lock >= 0) {
        call->copy = sim_load(call->path);
        if (call->copy) {
            call->node = call->copy;
            return call->copy;
        }
        int reason = errno;
        sim_unlock(call);
        errno = reason;
    }
    call->failure = refusal();
    return NULL;
}

nvmlReturn_t sim_commit(struct sim_call *call)
{
    nvmlReturn_t result = NVML_SUCCESS;
    if (sim_store(call->path, call->copy, call->fault == SIM_FAULT_KILL_DURING) != 0)
        result = refusal();
    sim_unlock(call);
    return result;
}

void sim_unlock(struct sim_call *call)
{
    /* No other thread can use this descriptor, because it belongs to this call. */
    if (call->lock >= 0)
        sim_unlock_path(call->lock);
    call->lock = -1;
    free(call->copy);
    call->copy = NULL;
    call->node = NULL;
}
