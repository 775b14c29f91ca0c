// Copyright (c) 2026, the gpufleet.node authors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

module gpufleet.invalid/client

go 1.24

require github.com/NVIDIA/go-nvml v0.13.4-1
