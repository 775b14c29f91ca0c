/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Load of a GPU: utilization, clocks, power, temperature. A compute process causes full load; partial
 * load is not modeled.
 */
#include <time.h>

#include "query.h"

static unsigned long long microseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

bool sim_loaded(const struct sim_node *node, const struct sim_gpu *gpu)
{
    return sim_busy(node, gpu->index, SIM_NONE, SIM_NONE, false);
}

/* Idle draw as recorded from an A100 80GB PCIe: 41 of 300 W, 75 of 300 W while MIG mode is on. */
unsigned int sim_power_mw(const struct sim_node *node, const struct sim_gpu *gpu)
{
    unsigned int permille = gpu->mode_current ? 250 : 137;
    if (sim_loaded(node, gpu))
        permille = 800;
    return (unsigned int)((unsigned long long)gpu->power_limit_mw * permille / 1000);
}

unsigned int sim_temperature(const struct sim_node *node, const struct sim_gpu *gpu)
{
    if (sim_loaded(node, gpu))
        return 61;
    return gpu->mode_current ? 39 : 33;
}

unsigned int sim_memory_temperature(const struct sim_node *node, const struct sim_gpu *gpu)
{
    return sim_temperature(node, gpu) + 8;
}

bool sim_has_margin(const struct sim_gpu *gpu)
{
    return gpu->architecture >= SIM_HOPPER;
}

int sim_margin(const struct sim_node *node, const struct sim_gpu *gpu)
{
    return (int)SIM_MAX_OPERATING_C - (int)sim_temperature(node, gpu);
}

/* Percent of a loaded GPU. */
enum { BUSY_GPU = 100, BUSY_MEMORY = 40 };

/* The utilization of a whole GPU is not available with MIG mode enabled. */
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target;
    if (!utilization || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (target.ci || target.gpu->mode_current)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    bool loaded = sim_loaded(call.node, target.gpu);
    *utilization = (nvmlUtilization_t){.gpu = loaded ? BUSY_GPU : 0, .memory = loaded ? BUSY_MEMORY : 0};
    SIM_RETURN(NVML_SUCCESS);
}

enum { SAMPLING_PERIOD_US = 167000 };
#define ENGINE_UTILIZATION(function)                                                        \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *percent, unsigned int *period) \
    {                                                                                       \
        SIM_ENTER("device=%p", (void *)device);                                             \
        struct sim_target target;                                                           \
        if (!percent || !period || !sim_device(&call, device, &target))                     \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                                        \
        if (target.ci || target.gpu->mode_current)                                          \
            SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);                                           \
        *percent = 0;                                                                       \
        *period = SAMPLING_PERIOD_US;                                                       \
        SIM_RETURN(NVML_SUCCESS);                                                           \
    }

ENGINE_UTILIZATION(nvmlDeviceGetEncoderUtilization)
ENGINE_UTILIZATION(nvmlDeviceGetDecoderUtilization)
ENGINE_UTILIZATION(nvmlDeviceGetJpgUtilization)
ENGINE_UTILIZATION(nvmlDeviceGetOfaUtilization)

/* One sample per compute process, taken at the end of the last period. The processes share the GPU equally. Without
 * `samples`, only the count is set. */
static nvmlReturn_t sample_processes(const struct sim_node *node, const struct sim_target *target,
                                     unsigned long long since, unsigned int room,
                                     nvmlProcessUtilizationInfo_v1_t *samples, unsigned int *count)
{
    const struct sim_process *working[SIM_MAX_PROCESSES];
    unsigned long long now = microseconds(CLOCK_REALTIME), taken = now - now % SAMPLING_PERIOD_US;

    if (target->ci || target->gpu->mode_current)
        return NVML_ERROR_NOT_SUPPORTED;
    unsigned int found = sim_processes(node, target, SIM_PROCESSES_LISTED, working);
    if (!found || taken <= since)
        return NVML_ERROR_NOT_FOUND;
    *count = found;
    if (!samples || room < found)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < found; i++)
        samples[i] = (nvmlProcessUtilizationInfo_v1_t){
            .timeStamp = taken, .pid = working[i]->pid, .smUtil = BUSY_GPU / found, .memUtil = BUSY_MEMORY / found};
    return NVML_SUCCESS;
}

/* NOT_SUPPORTED from Blackwell on, where clients must use the function below. */
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
                                             unsigned int *count, unsigned long long since)
{
    SIM_ENTER("device=%p count=%u since=%llu", (void *)device, count ? *count : 0, since);
    nvmlProcessUtilizationInfo_v1_t found[SIM_MAX_PROCESSES];
    struct sim_target target;
    if (!count || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (target.gpu->architecture >= SIM_BLACKWELL)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    unsigned int room = *count < SIM_MAX_PROCESSES ? *count : SIM_MAX_PROCESSES;
    nvmlReturn_t result = sample_processes(call.node, &target, since, room, samples ? found : NULL, count);
    for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
        samples[i] = (nvmlProcessUtilizationSample_t){.pid = found[i].pid,
                                                      .timeStamp = found[i].timeStamp,
                                                      .smUtil = found[i].smUtil,
                                                      .memUtil = found[i].memUtil};
    SIM_RETURN(result);
}

nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_v1_t *info)
{
    SIM_ENTER("device=%p count=%u", (void *)device, info ? info->processSamplesCount : 0);
    struct sim_target target;
    if (!info || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (info->version != NVML_VERSION_TAG(nvmlProcessesUtilizationInfo_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    SIM_RETURN(sample_processes(call.node, &target, info->lastSeenTimeStamp, info->processSamplesCount,
                                info->procUtilArray, &info->processSamplesCount));
}

/* No process encodes or captures. */
nvmlReturn_t nvmlDeviceGetEncoderStats(nvmlDevice_t device, unsigned int *sessions, unsigned int *fps,
                                                  unsigned int *latency)
{
    SIM_ENTER("device=%p", (void *)device);
    if (!sessions || !fps || !latency || !sim_gpu(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *sessions = *fps = *latency = 0;
    SIM_RETURN(NVML_SUCCESS);
}

QUERY(nvmlDeviceGetFBCStats, nvmlFBCStats_t, true, ((nvmlFBCStats_t){0}))

#define NO_SESSIONS(function)                                                       \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, void *sessions) \
    {                                                                               \
        SIM_ENTER("device=%p", (void *)device);                                     \
        (void)sessions;                                                             \
        if (!count || !sim_gpu(&call, device))                                      \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                                \
        *count = 0;                                                                 \
        SIM_RETURN(NVML_SUCCESS);                                                   \
    }

NO_SESSIONS(nvmlDeviceGetEncoderSessions)
NO_SESSIONS(nvmlDeviceGetFBCSessions)

/* Clocks. All clocks except the memory clock drop when the GPU is idle. */
enum { CLOCK_GRAPHICS, CLOCK_SM, CLOCK_MEMORY, CLOCK_VIDEO, CLOCK_TYPES };
enum { IDLE_MHZ = 210, IDLE_VIDEO_MHZ = 585, CLOCK_STEP_MHZ = 15 };

static unsigned int highest_clock(const struct sim_gpu *gpu, unsigned int type)
{
    const struct sim_hardware *hardware = sim_hardware(gpu);
    if (type == CLOCK_MEMORY)
        return hardware->memory_mhz;
    return type == CLOCK_VIDEO ? hardware->video_mhz : hardware->graphics_mhz;
}

static unsigned int current_clock(const struct sim_node *node, const struct sim_gpu *gpu, unsigned int type)
{
    if (type == CLOCK_MEMORY || sim_loaded(node, gpu))
        return highest_clock(gpu, type);
    return type == CLOCK_VIDEO ? IDLE_VIDEO_MHZ : IDLE_MHZ;
}

#define CLOCK(function, available, answer)                                           \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int type, unsigned int *mhz) \
    {                                                                                \
        SIM_ENTER("device=%p type=%u", (void *)device, type);                        \
        const struct sim_gpu *gpu = sim_gpu(&call, device);                          \
        if (!gpu || !mhz || type >= CLOCK_TYPES)                                     \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                                 \
        if (!(available))                                                            \
            SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);                                    \
        *mhz = (answer);                                                             \
        SIM_RETURN(NVML_SUCCESS);                                                    \
    }

CLOCK(nvmlDeviceGetClockInfo, true, current_clock(call.node, gpu, type))
CLOCK(nvmlDeviceGetMaxClockInfo, true, highest_clock(gpu, type))
CLOCK(nvmlDeviceGetApplicationsClock, type == CLOCK_GRAPHICS || type == CLOCK_MEMORY, highest_clock(gpu, type))
CLOCK(nvmlDeviceGetDefaultApplicationsClock, type == CLOCK_GRAPHICS || type == CLOCK_MEMORY, highest_clock(gpu, type))
CLOCK(nvmlDeviceGetMaxCustomerBoostClock, true, highest_clock(gpu, type))

enum { CLOCK_ID_CURRENT, CLOCK_ID_TARGET, CLOCK_ID_DEFAULT, CLOCK_ID_BOOST };
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, unsigned int type, unsigned int id, unsigned int *mhz)
{
    SIM_ENTER("device=%p type=%u id=%u", (void *)device, type, id);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !mhz || type >= CLOCK_TYPES || id > CLOCK_ID_BOOST)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *mhz = id == CLOCK_ID_CURRENT ? current_clock(call.node, gpu, type) : highest_clock(gpu, type);
    SIM_RETURN(NVML_SUCCESS);
}

/* Clocks are listed from high to low. If the buffer is too small, the required size is returned. */
static nvmlReturn_t list_clocks(unsigned int highest, unsigned int lowest, unsigned int *count, unsigned int *mhz)
{
    unsigned int needed = (highest - lowest) / CLOCK_STEP_MHZ + 1, room = *count;
    *count = needed;
    if (room < needed)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < needed; i++)
        mhz[i] = highest - i * CLOCK_STEP_MHZ;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count, unsigned int *mhz)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !count || (*count && !mhz))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    unsigned int only = highest_clock(gpu, CLOCK_MEMORY);
    SIM_RETURN(list_clocks(only, only, count, mhz));
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_mhz,
                                                             unsigned int *count, unsigned int *mhz)
{
    SIM_ENTER("device=%p memory=%u", (void *)device, memory_mhz);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !count || (*count && !mhz))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (memory_mhz != highest_clock(gpu, CLOCK_MEMORY))
        SIM_RETURN(NVML_ERROR_NOT_FOUND);
    SIM_RETURN(list_clocks(highest_clock(gpu, CLOCK_GRAPHICS), IDLE_MHZ, count, mhz));
}

/* Reasons that limit the clocks. */
enum { REASON_NONE = 0, REASON_IDLE = 1, REASONS_ALL = 0x1FF };
QUERY(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, true,
      sim_loaded(call.node, gpu) ? REASON_NONE : REASON_IDLE)
QUERY(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, true,
      sim_loaded(call.node, gpu) ? REASON_NONE : REASON_IDLE)
QUERY(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, true, REASONS_ALL)
QUERY(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, true, REASONS_ALL)

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, unsigned int policy,
                                                     nvmlViolationTime_t *violation)
{
    SIM_ENTER("device=%p policy=%u", (void *)device, policy);
    if (!violation || !sim_gpu(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *violation = (nvmlViolationTime_t){.referenceTime = microseconds(CLOCK_REALTIME)};
    SIM_RETURN(NVML_SUCCESS);
}

/* Power and temperature. */
QUERY(nvmlDeviceGetPowerUsage, unsigned int, true, sim_power_mw(call.node, gpu))
QUERY(nvmlDeviceGetPerformanceState, unsigned int, true, 0)
QUERY(nvmlDeviceGetPowerState, unsigned int, true, 0)
QUERY(nvmlDeviceGetPowerSource, unsigned int, true, 0) /* mains */

/* The current power draw times the uptime, so that the counter grows. */
unsigned long long sim_energy_mj(const struct sim_node *node, const struct sim_gpu *gpu)
{
    return microseconds(CLOCK_BOOTTIME) / 1000000 * sim_power_mw(node, gpu);
}

QUERY(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, true, sim_energy_mj(call.node, gpu))

enum { SENSOR_GPU };
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, unsigned int sensor, unsigned int *celsius)
{
    SIM_ENTER("device=%p sensor=%u", (void *)device, sensor);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !celsius || sensor != SENSOR_GPU)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *celsius = sim_temperature(call.node, gpu);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *temperature)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !temperature || temperature->sensorType != SENSOR_GPU)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (temperature->version != NVML_VERSION_TAG(nvmlTemperature_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    temperature->temperature = (int)sim_temperature(call.node, gpu);
    SIM_RETURN(NVML_SUCCESS);
}

enum { THRESHOLD_SHUTDOWN, THRESHOLD_SLOWDOWN, THRESHOLD_MEMORY, THRESHOLD_GPU, THRESHOLDS = 8 };
nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, unsigned int kind, unsigned int *celsius)
{
    static const unsigned int thresholds[] = {
        [THRESHOLD_SHUTDOWN] = SIM_SHUTDOWN_C,
        [THRESHOLD_SLOWDOWN] = SIM_SLOWDOWN_C,
        [THRESHOLD_MEMORY] = SIM_MEMORY_MAX_C,
        [THRESHOLD_GPU] = SIM_MAX_OPERATING_C,
    };
    SIM_ENTER("device=%p kind=%u", (void *)device, kind);
    if (!celsius || kind >= THRESHOLDS || !sim_gpu(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (kind > THRESHOLD_GPU) /* acoustic limits: no fan */
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *celsius = thresholds[kind];
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_v1_t *margin)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !margin)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (margin->version != NVML_VERSION_TAG(nvmlMarginTemperature_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (!sim_has_margin(gpu))
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    margin->marginTemperature = sim_margin(call.node, gpu);
    SIM_RETURN(NVML_SUCCESS);
}
