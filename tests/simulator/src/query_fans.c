/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Fans: no board of the simulator has one, because the chassis cools them. */
#include "query.h"

QUERY(nvmlDeviceGetNumFans, unsigned int, false, 0)
QUERY(nvmlDeviceGetFanSpeed, unsigned int, false, 0)

#define QUERY_FAN(function)                                                                \
    nvmlReturn_t function(nvmlDevice_t device, unsigned int fan, unsigned int *value)      \
    {                                                                                      \
        SIM_ENTER("device=%p fan=%u", (void *)device, fan);                                \
        bool valid = value && sim_gpu(&call, device);                                      \
        SIM_RETURN(valid ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT);        \
    }

QUERY_FAN(nvmlDeviceGetFanSpeed_v2)
QUERY_FAN(nvmlDeviceGetTargetFanSpeed)
QUERY_FAN(nvmlDeviceGetFanControlPolicy_v2)

nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(nvmlDevice_t device, unsigned int *lowest, unsigned int *highest)
{
    SIM_ENTER("device=%p", (void *)device);
    bool valid = lowest && highest && sim_gpu(&call, device);
    SIM_RETURN(valid ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_v1_t *info)
{
    SIM_ENTER("device=%p", (void *)device);
    if (!info || !sim_gpu(&call, device))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    bool known = info->version == NVML_VERSION_TAG(nvmlFanSpeedInfo_v1_t, 1);
    SIM_RETURN(known ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}
