/* Copyright (c) 2026, the gpufleet.node authors
 * GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 */

/* Stubs of all NVML functions, because clients treat a missing function differently from
 * NOT_SUPPORTED. The definitions are weak, so that an implementation takes precedence.
 */
#include "sim.h"

#define NVML_NAME(function)                                \
    __attribute__((weak)) nvmlReturn_t function(void);     \
    __attribute__((weak)) nvmlReturn_t function(void)      \
    {                                                      \
        return sim_stub(#function);                        \
    }
#include "names.inc"
