/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Device nodes: a process, such as one in a container, sees only GPUs and MIG devices whose nodes exist.
 *
 * The file STATE.devices, written by whatever creates the nodes, contains the name of their folder. Without it, there
 * are no device nodes, and everything is visible.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

enum {
    CONFIG = 1,        /* minor number of the node that allows to create and destroy instances */
    FIRST_INSTANCE = 3,
    GPU_INSTANCES = 15, /* numbers reserved for each GPU */
    PER_INSTANCE = 9    /* a GPU instance and its compute instances */
};

static char folder[256];

void sim_devices_open(const char *path)
{
    char name[SIM_PATH + 16], line[sizeof(folder)] = "";
    snprintf(name, sizeof(name), "%s.devices", path);
    FILE *file = fopen(name, "re");
    if (file) {
        if (fgets(line, sizeof(line), file))
            line[strcspn(line, "\n")] = '\0';
        fclose(file);
    }
    strcpy(folder, line);
}

static bool exists(const char *format, unsigned int minor)
{
    char name[sizeof(folder) + 64];
    int length = snprintf(name, sizeof(name), "%s/", folder);
    snprintf(name + length, sizeof(name) - (size_t)length, format, minor);
    return !folder[0] || access(name, F_OK) == 0;
}

static bool capability(uint32_t minor) { return exists("nvidia-caps/nvidia-cap%u", minor); }

bool sim_devices_allow_changes(void) { return capability(CONFIG); }

bool sim_visible(const struct sim_gpu *gpu) { return exists("nvidia%u", gpu->minor); }

/* The same numbers as in mig-minors, which tests/lab/node/kernel writes. */
bool sim_visible_ci(const struct sim_gpu *gpu, const struct sim_gi *gi, const struct sim_ci *ci)
{
    uint32_t minor = FIRST_INSTANCE + (gpu->minor * GPU_INSTANCES + gi->id) * PER_INSTANCE;
    return capability(minor) && capability(minor + 1 + ci->id);
}

uint32_t sim_visible_index(const struct sim_node *node, const struct sim_gpu *gpu)
{
    uint32_t index = 0;
    for (uint32_t i = 0; i < node->gpu_count && &node->gpus[i] != gpu; i++)
        index += sim_visible(&node->gpus[i]);
    return index;
}

uint32_t sim_visible_count(const struct sim_node *node) { return sim_visible_index(node, NULL); }

const struct sim_gpu *sim_visible_at(const struct sim_node *node, uint32_t index)
{
    for (uint32_t i = 0; i < node->gpu_count; i++)
        if (sim_visible(&node->gpus[i]) && index-- == 0)
            return &node->gpus[i];
    return NULL;
}
