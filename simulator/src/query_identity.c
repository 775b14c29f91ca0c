/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Identity of a GPU: constant names, numbers and versions. */
#include <stdio.h>

#include "query.h"

nvmlReturn_t query_text(char *buffer, unsigned int length, const char *text)
{
    if (!*text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(buffer, text);
    return NVML_SUCCESS;
}

QUERY_TEXT(nvmlDeviceGetSerial, gpu->serial)
QUERY_TEXT(nvmlDeviceGetVbiosVersion, gpu->vbios)
QUERY_TEXT(nvmlDeviceGetBoardPartNumber, gpu->part_number)

/* A MIG device's name consists of the GPU's name and its compute instance profile. */
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    SIM_ENTER("device=%p length=%u", (void *)device, length);
    struct sim_target target;
    struct sim_ci_profile profile;
    char text[sizeof target.gpu->name + sizeof profile.name + 8];
    if (!name || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (!target.ci)
        SIM_RETURN(query_text(name, length, target.gpu->name));
    if (!sim_ci_profile(target.gpu, target.gi, target.ci->profile, &profile))
        SIM_RETURN(NVML_ERROR_UNKNOWN);
    snprintf(text, sizeof text, "%s MIG %s", target.gpu->name, profile.name);
    SIM_RETURN(query_text(name, length, text));
}

/* Since driver 470, data center products have the brand NVIDIA; products before Turing have "Tesla". */
enum { BRAND_TESLA = 2, BRAND_NVIDIA_RTX = 13, BRAND_NVIDIA = 14 };
static unsigned int brand(const struct sim_gpu *gpu)
{
    if (strstr(gpu->name, "RTX"))
        return BRAND_NVIDIA_RTX;
    return gpu->architecture < SIM_TURING ? BRAND_TESLA : BRAND_NVIDIA;
}

QUERY(nvmlDeviceGetBrand, unsigned int, true, brand(gpu))
QUERY(nvmlDeviceGetArchitecture, unsigned int, true, gpu->architecture)
QUERY(nvmlDeviceGetBoardId, unsigned int, true, gpu->pci_domain << 16 | gpu->pci_bus << 8 | gpu->pci_device << 3)
QUERY(nvmlDeviceGetMultiGpuBoard, unsigned int, true, 0)
QUERY(nvmlDeviceGetModuleId, unsigned int, true, gpu->index + 1)
QUERY(nvmlDeviceGetDisplayMode, nvmlEnableState_t, true, NVML_FEATURE_DISABLED)
QUERY(nvmlDeviceGetDisplayActive, nvmlEnableState_t, true, NVML_FEATURE_DISABLED)
QUERY(nvmlDeviceGetVirtualizationMode, unsigned int, true, 0)
QUERY(nvmlDeviceGetNumGpuCores, unsigned int, true, gpu->multiprocessors * sim_hardware(gpu)->cores_per_multiprocessor)
QUERY(nvmlDeviceGetMemoryBusWidth, unsigned int, true, sim_hardware(gpu)->bus_width)
QUERY(nvmlDeviceGetInforomConfigurationChecksum, unsigned int, true, gpu->pci_subsystem_id)

enum { BUS_TYPE_PCIE = 2 };
QUERY(nvmlDeviceGetBusType, unsigned int, true, BUS_TYPE_PCIE)

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu_or_parent(&call, device);
    if (!gpu || !major || !minor)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *major = (int)gpu->capability_major;
    *minor = (int)gpu->capability_minor;
    SIM_RETURN(NVML_SUCCESS);
}

/* InfoROM: the version of the image depends on the board, and each object has its own. */
enum { INFOROM_OEM, INFOROM_ECC, INFOROM_POWER };

static const char *inforom_image(const struct sim_gpu *gpu)
{
    static const char *const images[] = {
        [SIM_AMPERE] = "1001.0230.00.03", [SIM_HOPPER] = "G520.0200.00.05", [SIM_BLACKWELL] = "G525.0225.00.03"};
    if (gpu->architecture < sizeof images / sizeof *images && images[gpu->architecture])
        return images[gpu->architecture];
    return "G500.0200.00.03";
}

QUERY_TEXT(nvmlDeviceGetInforomImageVersion, inforom_image(gpu))

nvmlReturn_t nvmlDeviceGetInforomVersion(nvmlDevice_t device, unsigned int object, char *version,
                                                    unsigned int length)
{
    SIM_ENTER("device=%p object=%u", (void *)device, object);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !version || object > INFOROM_POWER)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    const char *text = "";
    if (object == INFOROM_OEM)
        text = "2.1";
    else if (object == INFOROM_ECC && gpu->ecc_supported)
        text = gpu->architecture >= SIM_HOPPER ? "7.16" : "6.16";
    SIM_RETURN(query_text(version, length, text));
}

nvmlReturn_t nvmlDeviceValidateInforom(nvmlDevice_t device)
{
    SIM_ENTER("device=%p", (void *)device);
    SIM_RETURN(sim_gpu(&call, device) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT);
}

/* The GPU system processor runs firmware of the driver's version from Turing on. */
nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(nvmlDevice_t device, char *version)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !version)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (gpu->architecture < SIM_TURING)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    strcpy(version, call.node->driver_version);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetGspFirmwareMode(nvmlDevice_t device, unsigned int *enabled, unsigned int *by_default)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !enabled || !by_default)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (gpu->architecture < SIM_TURING)
        SIM_RETURN(NVML_ERROR_NOT_SUPPORTED);
    *enabled = *by_default = 1;
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device, nvmlDevice_t other, int *same)
{
    SIM_ENTER("device=%p other=%p", (void *)device, (void *)other);
    const struct sim_gpu *first = sim_gpu(&call, device), *second = sim_gpu(&call, other);
    if (!first || !second || !same)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *same = first == second;
    SIM_RETURN(NVML_SUCCESS);
}
