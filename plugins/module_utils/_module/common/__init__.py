# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What several subjects use: files, logs, locks, the record of the roles, systemd, configuration formats.

Imports the engine, and nothing of the others.
"""
