/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Shared by the getters in query_*.c: the frame of a getter, hardware data of products, and the load
 * of a GPU, with the NVML types that only these getters need.
 *
 * A getter for whole GPUs returns INVALID_ARGUMENT for the handle of a MIG device.
 */
#ifndef NVSIM_QUERY_H
#define NVSIM_QUERY_H

#include <string.h>

#include "sim.h"

typedef struct {
    unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
    unsigned int sessionsCount, averageFPS, averageLatency;
} nvmlFBCStats_t;

typedef struct {
    unsigned long long referenceTime, violationTime;
} nvmlViolationTime_t;

typedef struct {
    unsigned int version;
    unsigned int sensorType;
    int temperature;
} nvmlTemperature_v1_t;

typedef struct {
    unsigned int version;
    int marginTemperature;
} nvmlMarginTemperature_v1_t;

typedef struct {
    unsigned int max, high, partial, low, none;
} nvmlRowRemapperHistogramValues_t;

typedef struct {
    unsigned int version;
    unsigned long long aggregateUncParity, aggregateUncSecDed, aggregateCor;
    unsigned long long volatileUncParity, volatileUncSecDed, volatileCor;
    unsigned long long aggregateUncBucketL2, aggregateUncBucketSm, aggregateUncBucketPcie, aggregateUncBucketMcu,
        aggregateUncBucketOther;
    unsigned int bThresholdExceeded;
} nvmlEccSramErrorStatus_v1_t;

typedef struct {
    unsigned int version;
    unsigned char powerScope;
    unsigned int powerValueMw;
} nvmlPowerValue_v2_t;

#define FABRIC_STATE               \
    unsigned char clusterUuid[16]; \
    nvmlReturn_t status;           \
    unsigned int cliqueId;         \
    unsigned char state

typedef struct {
    FABRIC_STATE;
} nvmlGpuFabricInfo_t;

typedef struct {
    unsigned int version;
    FABRIC_STATE;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
    unsigned int version;
    FABRIC_STATE;
    unsigned int healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct {
    unsigned int pid;
    unsigned long long timeStamp;
    unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
    unsigned long long timeStamp;
    unsigned int pid;
    unsigned int smUtil, memUtil, encUtil, decUtil, jpgUtil, ofaUtil;
} nvmlProcessUtilizationInfo_v1_t;

typedef struct {
    unsigned int version;
    unsigned int processSamplesCount;
    unsigned long long lastSeenTimeStamp;
    nvmlProcessUtilizationInfo_v1_t *procUtilArray;
} nvmlProcessesUtilizationInfo_v1_t;

/* A getter with one output: `available` and `answer` are expressions that may use `gpu` and `call`. */
#define QUERY(function, type, available, answer)            \
    nvmlReturn_t function(nvmlDevice_t device, type *value) \
    {                                                       \
        SIM_ENTER("device=%p", (void *)device);             \
        const struct sim_gpu *gpu = sim_gpu(&call, device); \
        if (!gpu || !value)                                 \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);        \
        if (!(available))                                   \
            SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);           \
        *value = (answer);                                  \
        SIM_RETURN(NVML_SUCCESS);                           \
    }

/* A getter that writes a text to the caller's buffer. Empty: the GPU has no such text. */
#define QUERY_TEXT(function, text)                                                \
    nvmlReturn_t function(nvmlDevice_t device, char *buffer, unsigned int length) \
    {                                                                             \
        SIM_ENTER("device=%p length=%u", (void *)device, length);                 \
        const struct sim_gpu *gpu = sim_gpu(&call, device);                       \
        if (!gpu || !buffer)                                                      \
            SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);                              \
        SIM_RETURN(query_text(buffer, length, (text)));                           \
    }

nvmlReturn_t query_text(char *buffer, unsigned int length, const char *text);

nvmlReturn_t nvsim_reset(const char *path, uint32_t gpu); /* control.c */

/* query_hardware.c: figures from data sheets and public listings. */
struct sim_hardware {
    const char *product; /* part of the product name */
    unsigned int graphics_mhz, memory_mhz, video_mhz;
    unsigned int min_power_w;
    unsigned int bar1_mib;
    unsigned int pcie_generation;
    unsigned int bus_width;
    unsigned int cores_per_multiprocessor;
};
const struct sim_hardware *sim_hardware(const struct sim_gpu *gpu);

/* query_load.c */
bool sim_loaded(const struct sim_node *node, const struct sim_gpu *gpu); /* has a compute process */
unsigned int sim_power_mw(const struct sim_node *node, const struct sim_gpu *gpu);
unsigned long long sim_energy_mj(const struct sim_node *node, const struct sim_gpu *gpu);
unsigned int sim_temperature(const struct sim_node *node, const struct sim_gpu *gpu);
unsigned int sim_memory_temperature(const struct sim_node *node, const struct sim_gpu *gpu);
bool sim_has_margin(const struct sim_gpu *gpu); /* reports temperatures as margins to a limit */
int sim_margin(const struct sim_node *node, const struct sim_gpu *gpu);
enum { SIM_MAX_OPERATING_C = 85, SIM_SLOWDOWN_C = 89, SIM_SHUTDOWN_C = 92, SIM_MEMORY_MAX_C = 95 };

#endif
