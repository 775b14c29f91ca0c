# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What several subjects use.

    module.py     AnsibleModule for the modules of this collection
    record.py     what the roles installed and changed on a node
    files.py      files that modules write
    exclusive.py  locks
    logs.py       logs and the output of programs
    commands.py   commands on the node
    systemd.py    what systemctl reports
    config.py     a configuration file of layouts
    env_file.py   an EnvironmentFile, read as systemd does
    toml.py       TOML, also before Python 3.11

Imports the engine, and nothing of the others.

Tested under another name (folders are those of tests/unit/plugins):
    exclusive, files, record: modules/test_node_record.py
    commands, systemd: modules/test_nvidia_mig_services.py
    logs: tests/unit/test_parsing_time.py
"""
