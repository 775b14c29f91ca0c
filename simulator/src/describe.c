/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Text formats of a node: the description from which nvsim creates a node, and JSON to show it.
 *
 * A description has one key and value per line. "gpu" starts a GPU, "profile N" a profile of it (N is
 * the NVML constant), "recorded GI CI UUID" gives the UUID of a MIG device. All other lines belong to
 * the GPU or profile that was started last.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

enum type { TEXT, NUMBER, WIDE };
struct field {
    const char *key;
    enum type type;
    size_t offset, size;
};

#define FIELD(kind, type, name) {#name, type, offsetof(struct kind, name), sizeof(((struct kind *)0)->name)}

static const struct field node_fields[] = {
    FIELD(sim_node, TEXT, driver_version),
    FIELD(sim_node, TEXT, nvml_version),
    FIELD(sim_node, NUMBER, cuda_version),
    FIELD(sim_node, NUMBER, activation),
    FIELD(sim_node, NUMBER, quirks),
    FIELD(sim_node, NUMBER, gi_profile_count),
    {0},
};

static const struct field gpu_fields[] = {
    FIELD(sim_gpu, TEXT, name),
    FIELD(sim_gpu, TEXT, board),
    FIELD(sim_gpu, TEXT, uuid),
    FIELD(sim_gpu, NUMBER, minor),
    FIELD(sim_gpu, TEXT, serial),
    FIELD(sim_gpu, TEXT, part_number),
    FIELD(sim_gpu, TEXT, vbios),
    FIELD(sim_gpu, NUMBER, pci_domain),
    FIELD(sim_gpu, NUMBER, pci_bus),
    FIELD(sim_gpu, NUMBER, pci_device),
    FIELD(sim_gpu, NUMBER, pci_device_id),
    FIELD(sim_gpu, NUMBER, pci_subsystem_id),
    FIELD(sim_gpu, NUMBER, architecture),
    FIELD(sim_gpu, NUMBER, capability_major),
    FIELD(sim_gpu, NUMBER, capability_minor),
    FIELD(sim_gpu, WIDE, memory_mib),
    FIELD(sim_gpu, NUMBER, multiprocessors),
    FIELD(sim_gpu, NUMBER, power_limit_mw),
    FIELD(sim_gpu, NUMBER, power_default_mw),
    FIELD(sim_gpu, NUMBER, fabric),
    FIELD(sim_gpu, NUMBER, fabric_clique),
    FIELD(sim_gpu, TEXT, fabric_cluster),
    FIELD(sim_gpu, NUMBER, persistence),
    FIELD(sim_gpu, NUMBER, compute_mode),
    FIELD(sim_gpu, NUMBER, accounting),
    FIELD(sim_gpu, NUMBER, ecc_supported),
    FIELD(sim_gpu, NUMBER, ecc_current),
    FIELD(sim_gpu, NUMBER, ecc_pending),
    FIELD(sim_gpu, NUMBER, mig_capable),
    FIELD(sim_gpu, NUMBER, resetless),
    FIELD(sim_gpu, NUMBER, mode_persists),
    FIELD(sim_gpu, NUMBER, memory_units),
    FIELD(sim_gpu, NUMBER, compute_slices),
    FIELD(sim_gpu, NUMBER, max_gpu_instances),
    FIELD(sim_gpu, NUMBER, mode_current),
    FIELD(sim_gpu, NUMBER, mode_pending),
    {0},
};

static const struct field profile_fields[] = {
    FIELD(sim_profile, TEXT, name),
    FIELD(sim_profile, NUMBER, id),
    FIELD(sim_profile, NUMBER, slices),
    FIELD(sim_profile, WIDE, memory_mib),
    FIELD(sim_profile, NUMBER, multiprocessors),
    FIELD(sim_profile, NUMBER, max_instances),
    FIELD(sim_profile, NUMBER, copy_engines),
    FIELD(sim_profile, NUMBER, decoders),
    FIELD(sim_profile, NUMBER, encoders),
    FIELD(sim_profile, NUMBER, jpeg),
    FIELD(sim_profile, NUMBER, ofa),
    FIELD(sim_profile, NUMBER, capabilities),
    FIELD(sim_profile, NUMBER, size),
    FIELD(sim_profile, NUMBER, derived),
    {0},
};

static bool set(const struct field *fields, void *object, const char *key, const char *value)
{
    for (; fields->key; fields++) {
        char *at = (char *)object + fields->offset, *end;
        if (strcmp(fields->key, key) != 0)
            continue;
        if (fields->type == TEXT) {
            if (strlen(value) >= fields->size)
                return false;
            strcpy(at, value);
            return true;
        }
        errno = 0;
        uint64_t number = strtoull(value, &end, 0);
        if (!isdigit((unsigned char)*value) || *end || errno || (fields->type == NUMBER && number > UINT32_MAX))
            return false;
        uint32_t narrow = (uint32_t)number;
        memcpy(at, fields->type == WIDE ? (void *)&number : (void *)&narrow, fields->size);
        return true;
    }
    return false;
}

static bool set_starts(struct sim_profile *profile, const char *value)
{
    char *end;
    while (*value) {
        unsigned long start = strtoul(value, &end, 10);
        if (end == value || start > 63 || profile->start_count == SIM_MAX_STARTS)
            return false;
        profile->starts[profile->start_count++] = (uint8_t)start;
        value = end + strspn(end, " ");
    }
    return profile->start_count > 0;
}

static bool is_uuid(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    for (size_t i = 0; i < sizeof(form) - 1; i++)
        if (form[i] == '-' ? text[i] != '-' : !isxdigit((unsigned char)text[i]) || isupper((unsigned char)text[i]))
            return false;
    return text[sizeof(form) - 1] == '\0';
}

static bool set_recorded(struct sim_gpu *gpu, const char *value)
{
    struct sim_recorded *recorded = &gpu->recorded[gpu->recorded_count];
    int end = 0;
    if (gpu->recorded_count == SIM_MAX_RECORDED ||
        sscanf(value, "%u %u %47s%n", &recorded->gi, &recorded->ci, recorded->uuid, &end) != 3 || value[end] ||
        strncmp(recorded->uuid, "MIG-", 4) != 0 || !is_uuid(recorded->uuid + 4))
        return false;
    gpu->recorded_count++;
    return true;
}

const char *sim_gap(const struct sim_gpu *gpu)
{
    if (!gpu->name[0])
        return "a GPU needs a name";
    if (strncmp(gpu->uuid, "GPU-", 4) != 0 || !is_uuid(gpu->uuid + 4))
        return "a GPU's UUID looks like GPU-01234567-89ab-cdef-0123-456789abcdef";
    if (gpu->fabric_cluster[0] && !is_uuid(gpu->fabric_cluster))
        return "a fabric's cluster is a UUID";
    if (!gpu->mig_capable)
        return NULL;
    if (gpu->memory_units == 0 || gpu->memory_units > 32 || gpu->compute_slices > SIM_MAX_COMPUTE_INSTANCES ||
        gpu->max_gpu_instances > SIM_MAX_GPU_INSTANCES)
        return "a grid has 1 to 32 units, and at most 8 compute slices and GPU instances";
    for (uint32_t i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++) {
        const struct sim_profile *profile = &gpu->profiles[i];
        if (!profile->present)
            continue;
        if (profile->size == 0 || profile->size > gpu->memory_units || profile->slices == 0 ||
            profile->slices > gpu->compute_slices || profile->start_count == 0 ||
            profile->start_count > SIM_MAX_STARTS)
            return "a profile needs slices and placements that the board has";
        for (uint32_t s = 0; s < profile->start_count; s++)
            if (profile->starts[s] > gpu->memory_units - profile->size)
                return "a placement ends beyond the board";
    }
    return NULL;
}

struct sim_node *sim_parse(const char *text, char problem[256])
{
    struct sim_node *node = calloc(1, sim_node_size(SIM_MAX_GPUS));
    struct sim_gpu *gpu = NULL;
    struct sim_profile *profile = NULL;
    char line[256];
    const char *gap = NULL;

    problem[0] = '\0';
    if (!node)
        return NULL;
    memcpy(node->magic, SIM_MAGIC, sizeof(node->magic));
    node->layout = sim_layout();
    for (unsigned int number = 1; *text && !gap; number++) {
        size_t length = strcspn(text, "\n");
        if (length >= sizeof(line)) {
            gap = "a line is too long";
            break;
        }
        memcpy(line, text, length);
        line[length] = '\0';
        text += length + (text[length] == '\n');
        char *value = line + strcspn(line, " ");
        if (*value)
            *value++ = '\0';

        bool good;
        if (strcmp(line, "gpu") == 0) {
            good = node->gpu_count < SIM_MAX_GPUS;
            if (good) {
                gpu = &node->gpus[node->gpu_count];
                gpu->index = node->gpu_count++;
                profile = NULL;
            }
        } else if (strcmp(line, "profile") == 0) {
            unsigned long constant = strtoul(value, NULL, 10);
            good = gpu && constant < NVML_GPU_INSTANCE_PROFILE_COUNT;
            if (good) {
                profile = &gpu->profiles[constant];
                profile->present = 1;
            }
        } else if (strcmp(line, "starts") == 0) {
            good = profile && set_starts(profile, value);
        } else if (strcmp(line, "recorded") == 0) {
            good = gpu && set_recorded(gpu, value);
        } else if (profile) {
            good = set(profile_fields, profile, line, value);
        } else if (gpu) {
            good = set(gpu_fields, gpu, line, value);
        } else {
            good = set(node_fields, node, line, value);
        }
        if (!good)
            snprintf(problem, 256, "line %u of the description: %.60s %.100s", number, line, value);
        if (!good)
            break;
    }
    for (uint32_t i = 0; i < node->gpu_count && !gap; i++)
        gap = sim_gap(&node->gpus[i]);
    if (gap)
        snprintf(problem, 256, "%s", gap);
    if (problem[0]) {
        free(node);
        return NULL;
    }
    node->size = (uint32_t)sim_node_size(node->gpu_count);
    return node;
}

static void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c > '~')
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void json_fields(FILE *out, const struct field *fields, const void *object)
{
    for (; fields->key; fields++) {
        const char *at = (const char *)object + fields->offset;
        uint64_t wide;
        uint32_t narrow;
        fprintf(out, "\"%s\": ", fields->key);
        if (fields->type == TEXT) {
            json_text(out, at);
        } else if (fields->type == WIDE) {
            memcpy(&wide, at, sizeof(wide));
            fprintf(out, "%llu", (unsigned long long)wide);
        } else {
            memcpy(&narrow, at, sizeof(narrow));
            fprintf(out, "%u", narrow);
        }
        fputs(", ", out);
    }
}

static void json_id(FILE *out, const char *key, uint32_t id)
{
    if (id == SIM_NONE)
        fprintf(out, "\"%s\": null, ", key);
    else
        fprintf(out, "\"%s\": %u, ", key, id);
}

static void json_instances(FILE *out, const struct sim_gpu *gpu)
{
    const char *comma = "";
    for (uint32_t id = 0; id < 256; id++) {
        const struct sim_gi *gi = sim_gi_by_id(gpu, id);
        if (!gi)
            continue;
        const struct sim_profile *profile = &gpu->profiles[gi->profile];
        fprintf(out, "%s{\"id\": %u, \"profile\": \"%s\", \"profile_id\": %u, \"start\": %u, \"size\": %u, ", comma,
                gi->id, profile->name, profile->id, gi->start, gi->size);
        fputs("\"compute_instances\": [", out);
        comma = "";
        for (uint32_t c = 0; c < SIM_MAX_COMPUTE_INSTANCES; c++) {
            const struct sim_ci *ci = &gi->ci[c];
            struct sim_ci_profile made;
            char uuid[48];
            if (!ci->present || !sim_ci_profile(gpu, gi, ci->profile, &made))
                continue;
            sim_mig_uuid(gpu, gi->id, ci->id, uuid);
            fprintf(out,
                    "%s{\"id\": %u, \"profile\": \"%s\", \"profile_id\": %u, \"start\": %u, \"size\": %u, "
                    "\"multiprocessors\": %u, \"uuid\": \"%s\"}",
                    comma, ci->id, made.name, made.id, ci->start, ci->size, made.multiprocessors, uuid);
            comma = ", ";
        }
        fputs("]}", out);
        comma = ", ";
    }
}

static void json_gpu(FILE *out, const struct sim_node *node, const struct sim_gpu *gpu)
{
    const char *comma = "";
    char bus_id[32];

    sim_bus_id(gpu, bus_id);
    fprintf(out, "{\"index\": %u, \"pci_bus_id\": \"%s\", ", gpu->index, bus_id);
    json_fields(out, gpu_fields, gpu);
    fputs("\"profiles\": [", out);
    for (uint32_t i = 0; i < NVML_GPU_INSTANCE_PROFILE_COUNT; i++) {
        const struct sim_profile *profile = &gpu->profiles[i];
        if (!profile->present)
            continue;
        fprintf(out, "%s{\"constant\": %u, ", comma, i);
        json_fields(out, profile_fields, profile);
        fputs("\"starts\": [", out);
        for (uint32_t s = 0; s < profile->start_count; s++)
            fprintf(out, "%s%u", s ? ", " : "", profile->starts[s]);
        fputs("]}", out);
        comma = ", ";
    }
    fputs("], \"gpu_instances\": [", out);
    json_instances(out, gpu);
    fputs("], \"processes\": [", out);
    comma = "";
    for (uint32_t i = 0; i < SIM_MAX_PROCESSES; i++) {
        const struct sim_process *process = &node->processes[i];
        if (process->gpu != gpu->index || process->kind > SIM_PROCESS_CLIENT || !sim_process_alive(process))
            continue;
        fprintf(out, "%s{\"pid\": %u, \"kind\": %u, ", comma, process->pid, process->kind);
        json_id(out, "gi", process->gi);
        json_id(out, "ci", process->ci);
        fprintf(out, "\"memory_mib\": %llu, \"name\": ", (unsigned long long)process->memory_mib);
        json_text(out, process->name);
        fputc('}', out);
        comma = ", ";
    }
    fputs("]}", out);
}

char *sim_json(const struct sim_node *node)
{
    char *text = NULL;
    size_t size;
    const char *comma = "";
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fputc('{', out);
    json_fields(out, node_fields, node);
    fprintf(out, "\"tracing\": %u, \"boots\": %u, \"changes\": %llu, \"faults\": [", node->tracing, node->boots,
            (unsigned long long)node->changes);
    for (uint32_t i = 0; i < SIM_MAX_FAULTS; i++) {
        const struct sim_fault *fault = &node->faults[i];
        if (!fault->function[0])
            continue;
        fprintf(out, "%s{\"function\": ", comma);
        json_text(out, fault->function);
        fprintf(out, ", \"nth\": %u, \"always\": %s, \"action\": %u, \"code\": %d, ", fault->nth,
                fault->always ? "true" : "false", fault->action, fault->code);
        fprintf(out, "\"seen\": %u, \"fired\": %s}", fault->seen, fault->seen >= fault->nth ? "true" : "false");
        comma = ", ";
    }
    fputs("], \"latencies\": [", out);
    comma = "";
    for (uint32_t i = 0; i < SIM_MAX_LATENCIES; i++) {
        const struct sim_latency *latency = &node->latencies[i];
        if (!latency->function[0])
            continue;
        fprintf(out, "%s{\"function\": ", comma);
        json_text(out, latency->function);
        fprintf(out, ", \"microseconds\": %u}", latency->microseconds);
        comma = ", ";
    }
    fputs("], \"gpus\": [", out);
    for (uint32_t i = 0; i < node->gpu_count; i++) {
        fputs(i ? ", " : "", out);
        json_gpu(out, node, &node->gpus[i]);
    }
    fputs("]}", out);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
