# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: keep credentials of a cluster on the controller until the run ends."""

from __future__ import annotations

import base64
from pathlib import Path

from ansible import constants

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._cluster import kubeconfig, run_folder
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.refusal import Refusal


class ActionModule(Action):
    ARGUMENTS = {
        "kubeconfig": {"type": "str", "no_log": True},
        "server": {"type": "str", "default": ""},
        "name": {"type": "str", "default": "kubeconfig"},  # of the file
        "keep": {"type": "path"},
    }
    _requires_connection = False

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        try:
            folder = run_folder.prepare(Path(constants.DEFAULT_LOCAL_TMP))
        except OSError as error:
            # Tasks with credentials have no_log: another one fails with this.
            return {"problem": "credentials cannot be kept on the controller: %s" % error}
        result: Data = {"folder": str(folder)}
        if arguments["kubeconfig"] is not None:
            text, path = base64.b64decode(arguments["kubeconfig"]).decode(errors="replace"), folder / arguments["name"]
            try:
                # An empty one hides that of the user, which may be of another cluster.
                run_folder.write(path, kubeconfig.rebuild(text, arguments["server"]).encode() if text else b"")
            except Refusal as refusal:
                result["problem"] = (
                    "the kubeconfig of %s is refused: %s. Set gpu_cluster_kubeconfig to one on the controller"
                    % (arguments["server"], refusal)
                )
            else:
                result["kubeconfig"] = str(path)
        if arguments["keep"]:
            try:
                result["changed"] = run_folder.keep(
                    folder / arguments["name"], Path(arguments["keep"]), self._task.check_mode
                )
            except OSError as error:
                result.update(failed=True, msg="the kubeconfig cannot be kept: %s" % error)
        return result
