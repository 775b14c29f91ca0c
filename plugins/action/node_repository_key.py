# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Internal to the collection's roles: installs the key of a package repository, also one that is on the controller."""

from __future__ import annotations

import base64
import re

from ansible.errors import AnsibleError

from ansible_collections.gpufleet.node.plugins.module_utils._common.data import Data
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.action import Action
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.output import show
from ansible_collections.gpufleet.node.plugins.plugin_utils._common.truth import is_true
from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory import variables as inventory_variables

_TRUSTED = (
    "%s still trusts packages that are signed with the key %s, because other repositories may need it. If not, remove it "
    "with: rpm --erase gpg-pubkey-%s"
)


class ActionModule(Action):
    ARGUMENTS = None

    def perform(self, variables: Data) -> Data:
        arguments = self._arguments
        source = str(arguments.get("src", ""))
        if source and not re.match("[a-z]+://", source):
            try:
                for problem in inventory_variables.forged_fact_problems(variables.get("ansible_facts", {})):
                    raise AnsibleError(problem)
                arguments["content"] = base64.b64encode(self._read(source)).decode()
            except (AnsibleError, OSError) as error:
                return {"failed": True, "msg": "Cannot read the key %s on the controller: %s" % (source, error)}
        result: Data = self._execute_module(module_args=arguments, task_vars=variables)
        if not result.get("failed") and arguments.get("state") == "recorded":
            result["msg"] = [
                _TRUSTED % (variables["inventory_hostname"], each, each[-8:].lower()) for each in result["fingerprints"]
            ]
            for line in result["msg"]:
                show(line)
        elif not result.get("failed") and is_true(arguments.get("rpm")):
            self._import(result, arguments["dest"], variables)
        return result

    def _import(self, result: Data, dest: str, variables: Data) -> None:
        """Let rpm trust the key in a file. The result becomes that of both steps."""
        if self._task.check_mode and result["changed"]:  # the file may not exist yet
            return
        key = {"key": dest, **({"fingerprint": ",".join(result["fingerprints"])} if result["fingerprints"] else {})}
        imported = self._execute_module("ansible.builtin.rpm_key", key, task_vars=variables)
        if imported.get("failed"):
            result.update(imported)
        result["changed"] = result["changed"] or imported.get("changed", False)

    def _read(self, source: str) -> bytes:
        """The path that the module copy would use, decrypted if the file is encrypted with Ansible Vault."""
        path = self._loader.get_real_file(self._find_needle("files", source))
        try:
            with open(path, "rb") as file:
                return file.read()
        finally:
            self._loader.cleanup_tmp_file(path)
