/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Derived identities. A MIG device's UUID is name-based (version 5): the namespace is its GPU's UUID
 * and the name "GI/CI". As on hardware, the same placement on the same GPU always has the same UUID.
 * UUIDs recorded from a real GPU take precedence.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static uint32_t rotate(uint32_t value, unsigned int bits) { return value << bits | value >> (32 - bits); }

/* SHA-1 of a message of at most 55 bytes (one block), which is enough for a UUID. */
static void sha1_block(const uint8_t *message, size_t length, uint8_t digest[20])
{
    uint8_t block[64] = {0};
    uint32_t w[80], h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};

    memcpy(block, message, length);
    block[length] = 0x80;
    block[62] = (uint8_t)(length * 8 >> 8);
    block[63] = (uint8_t)(length * 8);
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        uint32_t mix, constant;
        if (i < 20) {
            mix = (b & c) | (~b & d);
            constant = 0x5A827999;
        } else if (i < 40) {
            mix = b ^ c ^ d;
            constant = 0x6ED9EBA1;
        } else if (i < 60) {
            mix = (b & c) | (b & d) | (c & d);
            constant = 0x8F1BBCDC;
        } else {
            mix = b ^ c ^ d;
            constant = 0xCA62C1D6;
        }
        uint32_t next = rotate(a, 5) + mix + e + constant + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
    for (int i = 0; i < 20; i++)
        digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

void sim_mig_uuid(const struct sim_gpu *gpu, uint32_t gi, uint32_t ci, char uuid[48])
{
    for (uint32_t i = 0; i < gpu->recorded_count; i++) {
        if (gpu->recorded[i].gi == gi && gpu->recorded[i].ci == ci) {
            snprintf(uuid, 48, "%s", gpu->recorded[i].uuid);
            return;
        }
    }

    uint8_t message[16 + 24] = {0}, d[20];
    size_t length = 0;
    for (const char *c = gpu->uuid + strlen("GPU-"); *c && length < 32; c++)
        if (hex(*c) >= 0) {
            message[length / 2] = (uint8_t)(message[length / 2] << 4 | hex(*c));
            length++;
        }
    int name = snprintf((char *)message + 16, sizeof(message) - 16, "%u/%u", gi, ci);
    sha1_block(message, 16 + (size_t)name, d);
    d[6] = (d[6] & 0x0F) | 0x50;
    d[8] = (d[8] & 0x3F) | 0x80;
    snprintf(uuid, 48, "MIG-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", d[0], d[1], d[2],
             d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10], d[11], d[12], d[13], d[14], d[15]);
}

void sim_bus_id(const struct sim_gpu *gpu, char text[32])
{
    snprintf(text, 32, "%08X:%02X:%02X.0", gpu->pci_domain & 0xFFFFFFFF, gpu->pci_bus & 0xFF, gpu->pci_device & 0xFF);
}
