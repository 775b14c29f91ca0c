/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Lookup of GPUs, and the identity of handles. Other getters are in query_*.c. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sim.h"

static nvmlReturn_t count_gpus(struct sim_call *call, unsigned int *count)
{
    if (!count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = sim_visible_count(call->node);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
    SIM_ENTER(" ");
    SIM_RETURN(count_gpus(&call, count));
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
    SIM_ENTER(" ");
    SIM_RETURN(count_gpus(&call, count));
}

static nvmlReturn_t by_index(struct sim_call *call, unsigned int index, nvmlDevice_t *device)
{
    const struct sim_gpu *gpu = sim_visible_at(call->node, index);
    if (!device || !gpu)
        return NVML_ERROR_INVALID_ARGUMENT;
    call->gpu = gpu->index + 1;
    *device = sim_gpu_handle(gpu);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
    SIM_ENTER("index=%u", index);
    SIM_RETURN(by_index(&call, index, device));
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    SIM_ENTER("index=%u", index);
    SIM_RETURN(by_index(&call, index, device));
}

/* For GPUs and MIG devices. */
static nvmlReturn_t by_uuid(struct sim_call *call, const char *uuid, nvmlDevice_t *device)
{
    for (uint32_t i = 0; i < sim_visible_count(call->node); i++) {
        const struct sim_gpu *gpu = sim_visible_at(call->node, i);
        struct sim_target target;
        char text[48];
        if (strcasecmp(uuid, gpu->uuid) == 0)
            return by_index(call, i, device);
        for (uint32_t m = 0; sim_mig_device(gpu, m, &target); m++) {
            sim_mig_uuid(gpu, target.gi->id, target.ci->id, text);
            if (strcasecmp(uuid, text) == 0) {
                call->gpu = gpu->index + 1;
                *device = sim_mig_handle(gpu, target.gi, target.ci);
                return NVML_SUCCESS;
            }
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    SIM_ENTER("uuid=%s", uuid ? uuid : "");
    SIM_RETURN(uuid && device ? by_uuid(&call, uuid, device) : NVML_ERROR_INVALID_ARGUMENT);
}

nvmlReturn_t nvmlDeviceGetHandleByUUIDV(const nvmlUUID_v1_t *uuid, nvmlDevice_t *device)
{
    SIM_ENTER("type=%u", uuid ? uuid->type : 0);
    char text[48];
    if (!uuid || !device)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (uuid->version != NVML_VERSION_TAG(nvmlUUID_v1_t, 1))
        SIM_RETURN(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (uuid->type == NVML_UUID_TYPE_ASCII) {
        snprintf(text, sizeof(text), "%.*s", (int)sizeof(uuid->value.str), uuid->value.str);
        SIM_RETURN(by_uuid(&call, text, device));
    }
    if (uuid->type != NVML_UUID_TYPE_BINARY)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    for (int mig = 0; mig < 2; mig++) { /* the bytes do not show the kind of id */
        char *next = text + sprintf(text, mig ? "MIG-" : "GPU-");
        for (int i = 0; i < 16; i++)
            next += sprintf(next, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", uuid->value.bytes[i]);
        if (by_uuid(&call, text, device) == NVML_SUCCESS)
            SIM_RETURN(NVML_SUCCESS);
    }
    SIM_RETURN(NVML_ERROR_NOT_FOUND);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
    SIM_ENTER("serial=%s", serial ? serial : "");
    if (!serial || !device)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    for (uint32_t i = 0; i < sim_visible_count(call.node); i++)
        if (strcmp(serial, sim_visible_at(call.node, i)->serial) == 0)
            SIM_RETURN(by_index(&call, i, device));
    SIM_RETURN(NVML_ERROR_NOT_FOUND);
}

/* "47:00.0", "0000:47:00.0" and "00000000:47:00.0" name the same GPU. */
static nvmlReturn_t by_bus_id(struct sim_call *call, const char *bus_id, nvmlDevice_t *device)
{
    unsigned int domain = 0, bus, slot, function = 0;
    int end = 0;

    if (!bus_id || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if ((sscanf(bus_id, "%x:%x:%x%n.%x%n", &domain, &bus, &slot, &end, &function, &end) < 3 || bus_id[end]) &&
        (domain = 0, sscanf(bus_id, "%x:%x%n.%x%n", &bus, &slot, &end, &function, &end) < 2 || bus_id[end]))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < sim_visible_count(call->node); i++) {
        const struct sim_gpu *gpu = sim_visible_at(call->node, i);
        if (gpu->pci_domain == domain && gpu->pci_bus == bus && gpu->pci_device == slot && function == 0)
            return by_index(call, i, device);
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
    SIM_ENTER("bus_id=%s", bus_id ? bus_id : "");
    SIM_RETURN(by_bus_id(&call, bus_id, device));
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
    SIM_ENTER("bus_id=%s", bus_id ? bus_id : "");
    SIM_RETURN(by_bus_id(&call, bus_id, device));
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    SIM_ENTER("device=%p", (void *)device);
    struct sim_target target, other;
    if (!index || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *index = sim_visible_index(call.node, target.gpu);
    for (uint32_t m = 0; target.ci && sim_mig_device(target.gpu, m, &other); m++)
        if (other.ci == target.ci)
            *index = m;
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    SIM_ENTER("device=%p length=%u", (void *)device, length);
    struct sim_target target;
    char text[48];
    if (!uuid || !sim_device(&call, device, &target))
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    if (target.ci)
        sim_mig_uuid(target.gpu, target.gi->id, target.ci->id, text);
    else
        snprintf(text, sizeof(text), "%s", target.gpu->uuid);
    if (strlen(text) >= length)
        SIM_RETURN(NVML_ERROR_INSUFFICIENT_SIZE);
    strcpy(uuid, text);
    SIM_RETURN(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor)
{
    SIM_ENTER("device=%p", (void *)device);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    if (!gpu || !minor)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    *minor = gpu->minor;
    SIM_RETURN(NVML_SUCCESS);
}
