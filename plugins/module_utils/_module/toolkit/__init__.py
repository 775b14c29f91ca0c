# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The container toolkit, and the runtimes that it configures.

    plan.py                module nvidia_container_toolkit_plan: what the role would do
    container_runtime.py   module nvidia_container_runtime
    container_runtimes.py  supported runtimes, and which of them to configure
    runtime_config.py      adds the nvidia runtime to a configuration, and removes it
    nvidia_ctk.py          generates a configuration on a copy
    docker_config.py       settings of docker
    config_files.py        files of a configuration, and how they are restored
    runtime_service.py     service of a runtime, and why it does not start
    runtime_check.py       whether the runtime offers the nvidia runtime

Imports common, and the engine.

Tested under another name (folders are those of tests/unit/plugins):
    plan: test_container_runtimes.py
    config_files, container_runtime, docker_config: modules/test_nvidia_container_runtime.py
    nvidia_ctk, runtime_config, runtime_service: modules/test_nvidia_container_runtime.py
"""
