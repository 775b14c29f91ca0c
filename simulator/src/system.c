/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* The library: initialization, versions, error texts. */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static nvmlReturn_t initialise(const char *function, unsigned int flags)
{
    nvmlReturn_t result = sim_library_open();
    if (result != NVML_SUCCESS)
        return result;
    struct sim_call call = {.function = function, .lock = -1};
    result = sim_enter_at(&call, NULL, false, "flags=%u", flags) ? NVML_SUCCESS : call.failure;
    result = sim_leave(&call, result);
    if (result != NVML_SUCCESS)
        sim_library_close();
    return result;
}

nvmlReturn_t nvmlInit(void) { return initialise(__func__, 0); }
nvmlReturn_t nvmlInit_v2(void) { return initialise(__func__, 0); }
nvmlReturn_t nvmlInitWithFlags(unsigned int flags) { return initialise(__func__, flags); }

nvmlReturn_t nvmlShutdown(void)
{
    SIM_ENTER(" ");
    nvmlReturn_t result = sim_leave(&call, NVML_SUCCESS);
    return result == NVML_SUCCESS ? sim_library_close() : result;
}

/* Copy a text with its terminator, or nothing if it does not fit. */
static nvmlReturn_t give_text(char *buffer, unsigned int length, const char *text)
{
    if (!buffer)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    SIM_ENTER("length=%u", length);
    SIM_RETURN(give_text(version, length, call.node->driver_version));
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    SIM_ENTER("length=%u", length);
    SIM_RETURN(give_text(version, length, call.node->nvml_version));
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
    SIM_ENTER(" ");
    if (!version)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *version = (int)call.node->cuda_version;
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    SIM_ENTER(" ");
    if (!version)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *version = (int)call.node->cuda_version;
    SIM_RETURN(NVML_SUCCESS);
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS: return "Success";
    case NVML_ERROR_UNINITIALIZED: return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT: return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED: return "Not Supported";
    case NVML_ERROR_NO_PERMISSION: return "Insufficient Permissions";
    case NVML_ERROR_ALREADY_INITIALIZED: return "Already Initialized";
    case NVML_ERROR_NOT_FOUND: return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE: return "Insufficient Size";
    case NVML_ERROR_INSUFFICIENT_POWER: return "Insufficient External Power";
    case NVML_ERROR_DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case NVML_ERROR_TIMEOUT: return "Timeout";
    case NVML_ERROR_IRQ_ISSUE: return "Interrupt Request Issue";
    case NVML_ERROR_LIBRARY_NOT_FOUND: return "NVML Shared Library Not Found";
    case NVML_ERROR_FUNCTION_NOT_FOUND: return "Function Not Found";
    case NVML_ERROR_CORRUPTED_INFOROM: return "Corrupted infoROM";
    case NVML_ERROR_GPU_IS_LOST: return "GPU is lost";
    case NVML_ERROR_RESET_REQUIRED: return "GPU requires reset";
    case NVML_ERROR_OPERATING_SYSTEM: return "GPU access blocked by the operating system";
    case NVML_ERROR_LIB_RM_VERSION_MISMATCH: return "Driver/library version mismatch";
    case NVML_ERROR_IN_USE: return "In use by another client";
    case NVML_ERROR_MEMORY: return "Insufficient Memory";
    case NVML_ERROR_NO_DATA: return "No data";
    case NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: return "vGPU ECC not supported";
    case NVML_ERROR_INSUFFICIENT_RESOURCES: return "Insufficient Resources";
    case NVML_ERROR_FREQ_NOT_SUPPORTED: return "Frequency not supported";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: return "Argument Version Mismatch";
    case NVML_ERROR_DEPRECATED: return "Deprecated";
    case NVML_ERROR_NOT_READY: return "Not Ready";
    case NVML_ERROR_GPU_NOT_FOUND: return "No GPUs found";
    case NVML_ERROR_INVALID_STATE: return "Invalid State";
    case NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: return "Reset type not supported";
    default: return "Unknown Error";
    }
}
