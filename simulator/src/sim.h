/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Shared by all files of the simulator: the node's state, the functions that read and change it,
 * and the frame of each NVML function, which adds traces, delays and faults.
 *
 * An NVML function looks like this:
 *
 *     nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
 *     {
 *         SIM_ENTER("device=%p", (void *)device);
 *         const struct sim_gpu *gpu = sim_gpu(&call, device);
 *         if (!gpu || !index)
 *             SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
 *         *index = gpu->index;
 *         SIM_RETURN(NVML_SUCCESS);
 *     }
 *
 * and a function that writes:
 *
 *         SIM_ENTER_WRITE("device=%p mode=%u", (void *)device, mode);
 *         if (!sim_privileged())
 *             SIM_RETURN(NVML_ERROR_NO_PERMISSION);
 *         if (!sim_lock(&call))
 *             SIM_RETURN(call.failure);
 *         struct sim_gpu *gpu = sim_gpu_rw(&call, device);
 *         ...
 *         SIM_RETURN(sim_commit(&call));
 *
 * SIM_RETURN without sim_commit discards all changes and releases the lock. After sim_lock, call.node
 * is the locked copy, and earlier pointers into the node are invalid. A function in a source file
 * replaces its stub (names.list) automatically.
 */
#ifndef NVSIM_SIM_H
#define NVSIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "nvml.h"

#define SIM_NONE 0xFFFFFFFFu /* NVML's "no such instance" */

#define SIM_MAGIC "nvsim-1"
#define SIM_DEFAULT_STATE "/var/lib/nvsim/state" /* if NVSIM_STATE is not set */

enum {
    SIM_LAYOUT = 1, /* of the state file */
    SIM_PATH = 4096,
    SIM_MAX_GPUS = 64,
    SIM_MAX_GPU_INSTANCES = 8,     /* on one GPU */
    SIM_MAX_COMPUTE_INSTANCES = 8, /* in one GPU instance */
    SIM_MAX_STARTS = 16,
    SIM_MAX_RECORDED = 64, /* MIG UUIDs known for one GPU */
    SIM_MAX_PROCESSES = 256,
    SIM_MAX_FAULTS = 64,
    SIM_MAX_LATENCIES = 64
};

/* Architecture numbers as nvmlDeviceGetArchitecture returns them. */
enum { SIM_VOLTA = 5, SIM_TURING = 6, SIM_AMPERE = 7, SIM_ADA = 8, SIM_HOPPER = 9, SIM_BLACKWELL = 10 };

/* How a mode change that needs a reset becomes active (struct sim_node.activation). */
enum { SIM_ACTIVATE_AUTO, SIM_ACTIVATE_RESET, SIM_ACTIVATE_REBOOT };

/* Driver differences (struct sim_node.quirks). */
enum {
    SIM_QUIRK_PROFILES_NEED_MIG = 1 << 0, /* profiles are NOT_SUPPORTED while MIG mode is off */
    SIM_QUIRK_OLD_NAMES = 1 << 1,         /* profiles are named after their memory size: 3g.39gb */
};

/* What a process does with the GPU. */
enum { SIM_PROCESS_COMPUTE, SIM_PROCESS_GRAPHICS, SIM_PROCESS_MPS, SIM_PROCESS_CLIENT };
enum { SIM_PROCESSES_LISTED = (1 << SIM_PROCESS_CLIENT) - 1 }; /* all kinds that process lists contain */

struct sim_profile { /* of GPU instances; index in the array = NVML constant */
    uint32_t present;
    uint32_t id;
    uint32_t slices;
    uint32_t multiprocessors;
    uint32_t max_instances;
    uint32_t copy_engines, decoders, encoders, jpeg, ofa;
    uint32_t capabilities; /* NVML_GPU_INSTANCE_PROFILE_CAPS_* */
    uint32_t size;         /* of a placement, in the board's units */
    uint32_t derived;      /* some figures are derived, not recorded on hardware */
    uint32_t start_count;
    uint8_t starts[SIM_MAX_STARTS];
    uint64_t memory_mib;
    char name[32]; /* without "MIG " */
};

struct sim_ci {
    uint32_t present;
    uint32_t id;
    uint32_t profile; /* NVML constant of the compute instance profile */
    uint32_t start, size;
    uint32_t serial; /* distinguishes it from an earlier one with the same id */
};

struct sim_gi {
    uint32_t present;
    uint32_t id;
    uint32_t profile; /* NVML constant of the GPU instance profile */
    uint32_t start, size;
    uint32_t serial;
    struct sim_ci ci[SIM_MAX_COMPUTE_INSTANCES]; /* index = id */
};

struct sim_recorded {
    uint32_t gi, ci;
    char uuid[48];
};

struct sim_gpu {
    /* identity */
    uint32_t index;
    uint32_t minor;
    char uuid[48];
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE];
    char board[48]; /* board model in plugins/plugin_utils/_layout/models, or the product if MIG is unknown */
    char serial[NVML_DEVICE_SERIAL_BUFFER_SIZE];
    char part_number[NVML_DEVICE_PART_NUMBER_BUFFER_SIZE];
    char vbios[NVML_DEVICE_VBIOS_VERSION_BUFFER_SIZE];
    uint32_t pci_domain, pci_bus, pci_device;
    uint32_t pci_device_id, pci_subsystem_id;
    uint32_t architecture;
    uint32_t capability_major, capability_minor;
    uint64_t memory_mib;
    uint32_t multiprocessors;
    uint32_t power_limit_mw, power_default_mw; /* enforced and factory limit */
    uint32_t fabric;                           /* registered with an NVLink fabric */
    uint32_t fabric_clique;
    char fabric_cluster[48]; /* UUID of a fabric that spans nodes; "" for a fabric of one board */

    /* settings */
    uint32_t persistence, compute_mode, accounting;
    uint32_t ecc_supported, ecc_current, ecc_pending;

    /* MIG: capabilities of the board ... */
    uint32_t mig_capable;
    uint32_t resetless;     /* a mode change needs no reset */
    uint32_t mode_persists; /* across a reboot */
    uint32_t memory_units, compute_slices, max_gpu_instances;
    struct sim_profile profiles[NVML_GPU_INSTANCE_PROFILE_COUNT];
    uint32_t recorded_count;
    struct sim_recorded recorded[SIM_MAX_RECORDED];

    /* ... and its current state */
    uint32_t mode_current, mode_pending;
    uint32_t next_serial;
    struct sim_gi gi[SIM_MAX_GPU_INSTANCES]; /* ordered by creation slot, not by id */
};

struct sim_process {
    uint32_t pid; /* 0: free entry */
    uint32_t kind;
    uint64_t started; /* kernel clock ticks; distinguishes a reused pid */
    uint32_t gpu;
    uint32_t gi, ci; /* SIM_NONE: the whole GPU */
    uint32_t reserved;
    uint64_t memory_mib;
    char name[96];
};

/* Action of a fault; "during" is after the new state is written and before it becomes current. */
enum {
    SIM_FAULT_NONE,
    SIM_FAULT_RETURN,       /* return the code without the call */
    SIM_FAULT_RETURN_AFTER, /* return the code after the call */
    SIM_FAULT_KILL_BEFORE,
    SIM_FAULT_KILL_DURING,
    SIM_FAULT_KILL_AFTER
};

struct sim_fault {
    char function[64]; /* NVML name, "*" (any call) or "write" (any call that changes the node); "" = free */
    uint32_t nth;      /* fires at this call, counted from 1 */
    uint32_t always;   /* ... and at all later calls */
    uint32_t seen;     /* calls so far */
    uint32_t action;   /* SIM_FAULT_* */
    int32_t code;
};

struct sim_latency {
    char function[64]; /* as in sim_fault */
    uint32_t microseconds;
};

struct sim_node {
    char magic[8];
    uint32_t layout; /* version of this struct */
    uint32_t size;   /* of the whole file */
    uint64_t changes;
    char driver_version[32];
    char nvml_version[32];
    uint32_t cuda_version; /* as NVML returns it: 12040 */
    uint32_t activation;
    uint32_t quirks;
    uint32_t tracing;
    uint32_t boots; /* reboots so far */
    uint32_t gi_profile_count; /* number of GPU instance profiles that this driver supports */
    uint32_t gpu_count;
    uint32_t fault_count, latency_count; /* active entries; 0 skips the search */
    struct sim_process processes[SIM_MAX_PROCESSES];
    struct sim_fault faults[SIM_MAX_FAULTS];
    struct sim_latency latencies[SIM_MAX_LATENCIES];
    struct sim_gpu gpus[]; /* gpu_count of them */
};

/* One NVML call in progress. */
struct sim_snapshot;
struct sim_call {
    const char *function;
    const char *path;            /* of the state file */
    const struct sim_node *node; /* the node that the call reads: a snapshot, or the locked copy */
    nvmlReturn_t failure;        /* why sim_enter or sim_lock failed */
    uint32_t gpu;                /* index + 1 of the call's GPU, for the trace */
    /* private to calls.c and state.c */
    struct sim_snapshot *snapshot;
    struct sim_node *copy;
    int lock;
    uint32_t fault; /* SIM_FAULT_* that fires in this call */
    int32_t fault_code;
    bool stub;
    bool tracing;
    char arguments[160];
};

/* calls.c */
bool sim_enter_at(struct sim_call *call, const char *path, bool write, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
nvmlReturn_t sim_leave(struct sim_call *call, nvmlReturn_t result);
nvmlReturn_t sim_stub(const char *function);
nvmlReturn_t sim_library_open(void);
nvmlReturn_t sim_library_close(void);
bool sim_privileged(void); /* root for the simulated driver, with access to the instances */

#define SIM_ENTER_(write, ...)                                   \
    struct sim_call call = {.function = __func__, .lock = -1};   \
    do {                                                         \
        if (!sim_enter_at(&call, NULL, (write), __VA_ARGS__))    \
            return sim_leave(&call, call.failure);               \
    } while (0)
#define SIM_ENTER(...) SIM_ENTER_(false, __VA_ARGS__)
#define SIM_ENTER_WRITE(...) SIM_ENTER_(true, __VA_ARGS__)
#define SIM_RETURN(result) return sim_leave(&call, (result))

/* device_nodes.c: what the process can open. GPUs are numbered without those that it cannot. */
void sim_devices_open(const char *path);
bool sim_devices_allow_changes(void);
bool sim_visible(const struct sim_gpu *gpu);
bool sim_visible_ci(const struct sim_gpu *gpu, const struct sim_gi *gi, const struct sim_ci *ci);
uint32_t sim_visible_count(const struct sim_node *node);
const struct sim_gpu *sim_visible_at(const struct sim_node *node, uint32_t index); /* NULL: past the last one */
uint32_t sim_visible_index(const struct sim_node *node, const struct sim_gpu *gpu);

/* state.c: within a call */
struct sim_node *sim_lock(struct sim_call *call); /* returns the node to change; NULL: see call->failure */
nvmlReturn_t sim_commit(struct sim_call *call);   /* makes the change visible to all processes atomically */
void sim_unlock(struct sim_call *call);           /* without sim_commit, changes are discarded */

/* state.c: by path, for control.c */
struct sim_node *sim_load(const char *path); /* malloc'ed and checked; NULL: errno */
int sim_lock_path(const char *path);         /* descriptor that holds the lock; -1: errno */
void sim_unlock_path(int lock);
int sim_store(const char *path, struct sim_node *node, bool die); /* 0, or -1 and errno; die: before it takes effect */
uint32_t sim_layout(void);
size_t sim_node_size(uint32_t gpus);

/* state.c: shared by readers */
struct sim_snapshot *sim_snapshot_take(const char *path, const struct sim_node **node);
void sim_snapshot_drop(struct sim_snapshot *snapshot);

/* handles.c: handles are numbers that contain GPU, instances and serials; NULL: does not exist (any more) */
const struct sim_gi *sim_gi_by_id(const struct sim_gpu *gpu, uint32_t id);
nvmlDevice_t sim_gpu_handle(const struct sim_gpu *gpu);
nvmlGpuInstance_t sim_gi_handle(const struct sim_gpu *gpu, const struct sim_gi *gi);
nvmlComputeInstance_t sim_ci_handle(const struct sim_gpu *gpu, const struct sim_gi *gi, const struct sim_ci *ci);
nvmlDevice_t sim_mig_handle(const struct sim_gpu *gpu, const struct sim_gi *gi, const struct sim_ci *ci);

struct sim_target { /* the objects of a handle; gi and ci are NULL for a whole GPU */
    const struct sim_gpu *gpu;
    const struct sim_gi *gi;
    const struct sim_ci *ci;
};
bool sim_device(struct sim_call *call, nvmlDevice_t device, struct sim_target *target); /* GPU or MIG device */
const struct sim_gpu *sim_gpu(struct sim_call *call, nvmlDevice_t device);              /* GPUs only */
const struct sim_gpu *sim_gpu_or_parent(struct sim_call *call, nvmlDevice_t device);    /* MIG device: its GPU */
bool sim_gpu_instance(struct sim_call *call, nvmlGpuInstance_t handle, struct sim_target *target);
bool sim_compute_instance(struct sim_call *call, nvmlComputeInstance_t handle, struct sim_target *target);
struct sim_gpu *sim_gpu_rw(struct sim_call *call, nvmlDevice_t device); /* after sim_lock */

/* names and identities */
void sim_mig_uuid(const struct sim_gpu *gpu, uint32_t gi, uint32_t ci, char uuid[48]); /* "MIG-..." */
void sim_bus_id(const struct sim_gpu *gpu, char text[32]);                              /* "00000000:47:00.0" */

/* geometry.c: pure rules of MIG */
struct sim_ci_profile {
    uint32_t id; /* as returned by NVML; equal to the constant */
    uint32_t slices, multiprocessors, max_instances;
    char name[48]; /* "1c.3g.40gb", without "MIG " */
};
const struct sim_profile *sim_profile_by_id(const struct sim_gpu *gpu, uint32_t id, uint32_t *constant);
bool sim_gi_fits(const struct sim_gpu *gpu, uint32_t constant, uint32_t start);
bool sim_gi_default_start(const struct sim_gpu *gpu, uint32_t constant, uint32_t *start);
uint32_t sim_gi_remaining(const struct sim_gpu *gpu, uint32_t constant);
uint32_t sim_gi_new_id(const struct sim_gpu *gpu, uint32_t start, uint32_t size);
bool sim_ci_profile(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t constant, struct sim_ci_profile *out);
uint32_t sim_ci_starts(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices,
                       uint32_t starts[SIM_MAX_STARTS]); /* returns the count */
bool sim_ci_fits(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices, uint32_t start);
bool sim_ci_default_start(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices, uint32_t *start);
uint32_t sim_ci_remaining(const struct sim_gpu *gpu, const struct sim_gi *gi, uint32_t slices);

/* mig_devices.c: the MIG device at this index, in NVML's order (by GI id, then CI id) */
bool sim_mig_device(const struct sim_gpu *gpu, uint32_t index, struct sim_target *target);
uint32_t sim_max_mig_devices(const struct sim_gpu *gpu);

/* processes.c */
bool sim_process_alive(const struct sim_process *process);
uint64_t sim_process_started(pid_t pid); /* 0: no such process */
/* Returns whether a process uses it. gi, ci: SIM_NONE matches all. Clients only open the device. */
bool sim_busy(const struct sim_node *node, uint32_t gpu, uint32_t gi, uint32_t ci, bool clients);
uint64_t sim_used_mib(const struct sim_node *node, uint32_t gpu, uint32_t gi, uint32_t ci);
/* The processes of these kinds (1 << SIM_PROCESS_*) on a GPU or MIG device, in order of attachment; returns the count. */
unsigned int sim_processes(const struct sim_node *node, const struct sim_target *target, unsigned int kinds,
                           const struct sim_process *found[SIM_MAX_PROCESSES]);
/* The same for an NVML call, whose buffer has room for `count`. For a GPU with MIG mode enabled, it requires root. */
nvmlReturn_t sim_list_processes(struct sim_call *call, nvmlDevice_t device, unsigned int kinds,
                                const struct sim_process *found[SIM_MAX_PROCESSES], unsigned int *count);

/* describe.c: a node as text */
struct sim_node *sim_parse(const char *text, char gap[256]); /* NULL: see gap */
char *sim_json(const struct sim_node *node);                 /* malloc'ed */
const char *sim_gap(const struct sim_gpu *gpu); /* the missing part of a description; NULL: complete */

/* mig_mode.c */
void sim_drop_instances(struct sim_gpu *gpu);
bool sim_has_instances(const struct sim_gpu *gpu);

#endif
