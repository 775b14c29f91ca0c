/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The NVLink fabric of a GPU. Before Hopper, the query is not supported. From Hopper on, it succeeds on every board,
 * with the state "not supported" if there is no NVSwitch. A simulated fabric is always up.
 */
#include <stdio.h>

#include "query.h"

enum { STATE_COMPLETED = 3 };
enum { SUMMARY_HEALTHY = 1 };

/* Full bandwidth, no route recovery, no unhealthy route, no access timeout (each 2 bits: 2 = false), and then 4 bits:
 * 1 = nothing wrong with the configuration. */
enum { HEALTHY = 2 | 2 << 2 | 2 << 4 | 2 << 6 | 1 << 8 };

/* Only fabrics of several nodes, which have a cluster, report health. */
static nvmlReturn_t fabric(const struct sim_gpu *gpu, nvmlGpuFabricInfo_v3_t *info)
{
    *info = (nvmlGpuFabricInfo_v3_t){.status = NVML_SUCCESS};
    if (gpu->architecture < SIM_HOPPER)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!gpu->fabric)
        return NVML_SUCCESS;
    info->state = STATE_COMPLETED;
    info->cliqueId = gpu->fabric_clique;
    const char *digits = gpu->fabric_cluster;
    for (int i = 0; *digits && i < 16; i++) {
        digits += *digits == '-';
        sscanf(digits, "%2hhx", &info->clusterUuid[i]);
        digits += 2;
    }
    if (gpu->fabric_cluster[0]) {
        info->healthMask = HEALTHY;
        info->healthSummary = SUMMARY_HEALTHY;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    nvmlGpuFabricInfo_v3_t found;
    if (!gpu || !info)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    nvmlReturn_t result = fabric(gpu, &found);
    if (result == NVML_SUCCESS) {
        *info = (nvmlGpuFabricInfo_t){.status = found.status, .cliqueId = found.cliqueId, .state = found.state};
        memcpy(info->clusterUuid, found.clusterUuid, sizeof info->clusterUuid);
    }
    SIM_RETURN(result);
}

/* Version 3 adds one field to version 2. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    SIM_ENTER("device=%p version=%#x", (void *)device, info ? info->version : 0);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    nvmlGpuFabricInfo_v3_t found;
    if (!gpu || !info)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    unsigned int version = info->version;
    if (version != NVML_VERSION_TAG(nvmlGpuFabricInfo_v2_t, 2) &&
        version != NVML_VERSION_TAG(nvmlGpuFabricInfo_v3_t, 3))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    nvmlReturn_t result = fabric(gpu, &found);
    found.version = version;
    if (result == NVML_SUCCESS)
        memcpy((void *)info, &found, NVML_VERSION_SIZE(version));
    SIM_RETURN(result);
}
