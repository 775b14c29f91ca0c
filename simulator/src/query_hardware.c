/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Hardware figures of products: clocks, power range, BAR1, bus. They are approximate if listings differ
 * between board revisions. The MIG model does not depend on them.
 */
#include "query.h"

/* The first row whose text occurs in the product name applies; the last row applies to all others. */
static const struct sim_hardware products[] = {
    /*                    clocks               power  BAR1    PCIe bus   cores */
    {"A30",               1440, 1215, 1305,    100,   32768,  4,   3072, 64},
    {"A100 80GB PCIe",    1410, 1512, 1290,    150,   131072, 4,   5120, 64},
    {"A100-SXM4-80GB",    1410, 1593, 1290,    100,   131072, 4,   5120, 64},
    {"A100-SXM4-40GB",    1410, 1215, 1290,    100,   65536,  4,   5120, 64},
    {"A100-PCIE-40GB",    1410, 1215, 1290,    150,   65536,  4,   5120, 64},
    {"A100",              1410, 1215, 1290,    100,   65536,  4,   5120, 64},
    {"H100 PCIe",         1755, 1593, 1620,    200,   131072, 5,   5120, 128},
    {"H100 NVL",          1785, 2619, 1545,    200,   131072, 5,   6016, 128},
    {"H100",              1980, 2619, 1545,    200,   131072, 5,   5120, 128},
    {"GH200",             1980, 2619, 1545,    100,   131072, 5,   6144, 128},
    {"H200",              1980, 3201, 1545,    200,   262144, 5,   6144, 128},
    {"H20",               1980, 2619, 1545,    200,   131072, 5,   6144, 128},
    {"B200",              1965, 3996, 1965,    200,   262144, 5,   8192, 128},
    {"B300",              1965, 3996, 1965,    200,   524288, 5,   8192, 128},
    {"RTX PRO 6000",      2430, 12481, 2370,   150,   131072, 5,   512,  128},
    {"L40",               2520, 9001, 1965,    100,   65536,  4,   384,  128},
    {"T4",                1590, 5001, 1470,    60,    256,    3,   256,  64},
    {"V100",              1530, 877,  1372,    150,   32768,  3,   4096, 64},
    {"",                  1410, 1215, 1290,    100,   32768,  4,   4096, 128},
};

const struct sim_hardware *sim_hardware(const struct sim_gpu *gpu)
{
    const struct sim_hardware *row = products;
    while (!strstr(gpu->name, row->product))
        row++;
    return row;
}
