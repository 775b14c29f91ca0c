/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* nvmlDeviceGetFieldValues: values by field number, each with its own return code. */
#include <stdlib.h>
#include <time.h>

#include "query.h"

enum {
    FIELD_ECC_CURRENT = 1,
    FIELD_ECC_PENDING = 2,
    FIELD_MEMORY_TEMPERATURE = 82,
    FIELD_ENERGY = 83,
    FIELD_PCIE_REPLAYS = 94,
    FIELD_PCIE_REPLAY_ROLLOVERS = 95,
    FIELD_REMAPPED_CORRECTABLE = 142,
    FIELD_REMAPPED_FAILURE = 145,
    FIELD_POWER_AVERAGE = 185,
    FIELD_POWER_INSTANT = 186,
    FIELD_POWER_MIN = 187,
    FIELD_POWER_MAX = 188,
    FIELD_POWER_DEFAULT = 189,
    FIELD_POWER_CURRENT = 190,
    FIELD_ENERGY_SINCE_LOAD = 191,
    FIELD_POWER_REQUESTED = 192,
    FIELD_SHUTDOWN_MARGIN = 193,
    FIELD_SLOWDOWN_MARGIN = 194,
    FIELD_MEMORY_MAX_MARGIN = 195,
    FIELD_OPERATING_MARGIN = 196,
    FIELD_RESET_REQUIRED = 226,
    FIELD_DRAIN_AND_RESET_RECOMMENDED = 227
};
enum { POWER_SCOPE_GPU, POWER_SCOPE_MODULE, POWER_SCOPE_MEMORY };

static nvmlReturn_t whole(nvmlFieldValue_t *field, unsigned int value)
{
    field->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
    field->value.uiVal = value;
    return NVML_SUCCESS;
}

static nvmlReturn_t whole_if(bool available, nvmlFieldValue_t *field, unsigned int value)
{
    return available ? whole(field, value) : NVML_ERROR_NOT_SUPPORTED;
}

/* Limits of Hopper and later, in degrees above the temperature at which clocks are first reduced. */
static nvmlReturn_t margin(const struct sim_gpu *gpu, nvmlFieldValue_t *field, int value)
{
    if (!sim_has_margin(gpu))
        return NVML_ERROR_NOT_SUPPORTED;
    field->valueType = NVML_VALUE_TYPE_SIGNED_INT;
    field->value.siVal = value;
    return NVML_SUCCESS;
}

static nvmlReturn_t power(const struct sim_node *node, const struct sim_gpu *gpu, nvmlFieldValue_t *field)
{
    if (field->scopeId != POWER_SCOPE_GPU)
        return NVML_ERROR_NOT_SUPPORTED;
    switch (field->fieldId) {
    case FIELD_POWER_AVERAGE: /* GA100 does not average */
        return whole_if(gpu->architecture > SIM_AMPERE, field, sim_power_mw(node, gpu));
    case FIELD_POWER_INSTANT: return whole(field, sim_power_mw(node, gpu));
    case FIELD_POWER_MIN: return whole(field, sim_hardware(gpu)->min_power_w * 1000);
    case FIELD_POWER_MAX:
    case FIELD_POWER_DEFAULT: return whole(field, gpu->power_default_mw);
    default: return whole(field, gpu->power_limit_mw);
    }
}

/* Drivers before branch 530 do not support the fields on MIG. */
static bool tells_of_mig(const struct sim_node *node)
{
    return strtoul(node->driver_version, NULL, 10) >= 530;
}

static nvmlReturn_t read_field(const struct sim_node *node, const struct sim_gpu *gpu, nvmlFieldValue_t *field)
{
    switch (field->fieldId) {
    case FIELD_ECC_CURRENT: return whole_if(gpu->ecc_supported, field, gpu->ecc_current);
    case FIELD_ECC_PENDING: return whole_if(gpu->ecc_supported, field, gpu->ecc_pending);
    case FIELD_MEMORY_TEMPERATURE: return whole(field, sim_memory_temperature(node, gpu));
    case FIELD_PCIE_REPLAYS:
    case FIELD_PCIE_REPLAY_ROLLOVERS:
    case FIELD_RESET_REQUIRED: /* after errors; does not include a pending MIG mode */
    case FIELD_DRAIN_AND_RESET_RECOMMENDED: return whole(field, 0);
    case FIELD_REMAPPED_CORRECTABLE ... FIELD_REMAPPED_FAILURE:
        return whole_if(gpu->architecture >= SIM_AMPERE && gpu->ecc_supported, field, 0);
    case FIELD_POWER_AVERAGE ... FIELD_POWER_CURRENT:
    case FIELD_POWER_REQUESTED: return power(node, gpu, field);
    case FIELD_ENERGY:
    case FIELD_ENERGY_SINCE_LOAD:
        field->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
        field->value.ullVal = sim_energy_mj(node, gpu);
        return NVML_SUCCESS;
    case FIELD_SHUTDOWN_MARGIN: return margin(gpu, field, (int)SIM_MAX_OPERATING_C - (int)SIM_SHUTDOWN_C);
    case FIELD_SLOWDOWN_MARGIN: return margin(gpu, field, (int)SIM_MAX_OPERATING_C - (int)SIM_SLOWDOWN_C);
    case FIELD_MEMORY_MAX_MARGIN:
    case FIELD_OPERATING_MARGIN: return margin(gpu, field, 0);
    case NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED:
        return whole_if(gpu->mig_capable && tells_of_mig(node), field, gpu->resetless);
    case NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE:
        return whole_if(gpu->mig_capable && tells_of_mig(node), field, !(node->quirks & SIM_QUIRK_PROFILES_NEED_MIG));
    default: return NVML_ERROR_NOT_SUPPORTED;
    }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    SIM_ENTER("device=%p count=%d first=%u", (void *)device, count, count > 0 && values ? values->fieldId : 0);
    const struct sim_gpu *gpu = sim_gpu(&call, device);
    struct timespec now;
    if (!gpu || count <= 0 || !values)
        SIM_RETURN(NVML_ERROR_INVALID_ARGUMENT);
    clock_gettime(CLOCK_REALTIME, &now);
    for (int i = 0; i < count; i++) {
        values[i].timestamp = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
        values[i].latencyUsec = 0;
        values[i].nvmlReturn = read_field(call.node, gpu, &values[i]);
    }
    SIM_RETURN(NVML_SUCCESS);
}
