# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of the values of variables."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._inventory.values import value_problems

TYPES = {
    "gpu_node_hosts_entries": "list",
    "nvidia_container_toolkit_runtimes": "list",
    "nvidia_mig_boot_before": "list",
    "nvidia_mig_export_path": "path",
}


def test_valid_values() -> None:
    assert (
        value_problems(
            {
                "nvidia_mig_lock_path": "/run/mig.lock",
                "nvidia_mig_export_path": "",
                "gpu_node_hosts_path": "~/hosts",
                "nvidia_mig_boot_time_limit": "300",
                "nvidia_mig_busy_wait": 0,
                "nvidia_mig_reboot_timeout": "{{ left to the argument specification }}",
                "gpu_node_hostname": "gpu-1.example.com",
                "gpu_node_hosts_entries": [{"address": "2001:db8::1", "names": ["gpu-1.example.com", "gpu_1"]}],
                "nvidia_driver_branch": 580,
                "nvidia_mig_boot_before": ["kubelet.service"],
                "gpu_node_batches": [1, "25%"],
                "gpu_node_environment": [{"http_proxy": "x"}, {}],
                "nvidia_driver_repository_key_checksum": "sha256:" + "aB" * 32,
                "nvidia_mig_pynvml_checksum": "sha256:https://example.com/SHA256SUMS",
                "nvidia_driver_repository_key_fingerprint": "EB69 3B30 35CD 5710 E231  E123 A4B4 6996 3BF8 63CC",
                "nvidia_container_toolkit_repository_key_fingerprint": "",
                "nvidia_container_toolkit_runtimes": "auto",
                "gpu_node_boards": ["A100-80GB", "a30-24gb"],
            },
            dict(TYPES, nvidia_driver_branch="str"),
        )
        == []
    )


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("gpu_node_environment", "http_proxy=x", "gpu_node_environment is invalid: give a dictionary"),
        ("gpu_node_environment", ["a"], "gpu_node_environment is invalid: give a dictionary"),
        ("nvidia_mig_lock_path", "lock", "nvidia_mig_lock_path is 'lock': give an absolute path"),
        ("nvidia_mig_export_path", "/etc/a\0b", "nvidia_mig_export_path is '/etc/a\\x00b': no control characters"),
        ("nvidia_mig_export_path", {"a": 1}, "nvidia_mig_export_path is {'a': 1}: give a string"),
        ("nvidia_mig_boot_before", "kubelet.service", "nvidia_mig_boot_before is 'kubelet.service': give a list"),
        ("nvidia_container_toolkit_runtimes", "docker", "nvidia_container_toolkit_runtimes is 'docker': give a list"),
        ("nvidia_mig_boot_before", ["a\nExecStart=/bin/false"], "no control characters"),
        ("nvidia_mig_access_group", None, "nvidia_mig_access_group is null: give a value, or remove the variable"),
        ("nvidia_mig_cdi_output", "nvidia.yaml", "give an absolute path"),
        ("nvidia_mig_boot_time_limit", 0, "nvidia_mig_boot_time_limit is 0: give seconds, from 1 to 1000000000"),
        ("nvidia_mig_lock_wait", "-1", "nvidia_mig_lock_wait is -1: give seconds, from 0"),
        ("nvidia_mig_lock_wait", 10**40, "give seconds, from 0 to 1000000000"),
        ("gpu_node_batches", "xyz", "gpu_node_batches is 'xyz': give numbers of hosts or percentages"),
        ("gpu_node_batches", [1, "a quarter"], "give numbers of hosts or percentages"),
        ("nvidia_mig_boot_before", ["kubelet"], "nvidia_mig_boot_before names 'kubelet': give full unit names"),
        ("nvidia_mig_boot_after", ["a b.service"], "nvidia_mig_boot_after names 'a b.service'"),
        ("nvidia_mig_boot_before", [None], "nvidia_mig_boot_before names null"),
        ("gpu_node_batches", [], "give numbers of hosts or percentages, from 1 or 1% to 100%"),
        ("gpu_node_batches", [0], "give numbers of hosts or percentages"),
        ("gpu_node_batches", "0%", "give numbers of hosts or percentages"),
        ("gpu_node_batches", "101%", "give numbers of hosts or percentages"),
        ("gpu_node_batches", -1, "gpu_node_batches is -1: give numbers"),
        ("gpu_node_max_fail_percentage", "10%", "gpu_node_max_fail_percentage is '10%': give a number from 0 to 100"),
        ("gpu_node_max_fail_percentage", 101, "give a number from 0 to 100"),
        ("gpu_node_boards", ["A30-24GB", None], "gpu_node_boards, entry 2: unknown board null"),
        (
            "gpu_node_boards",
            ["A100-80G"],
            "gpu_node_boards, entry 1: unknown board 'A100-80G' (did you mean A100-80GB?): ",
        ),
        ("nvidia_driver_boards", [{"A30": 1}], "nvidia_driver_boards, entry 1: unknown board {'A30': 1}"),
        (
            "nvidia_driver_repository_key_checksum",
            "0" * 64,
            "nvidia_driver_repository_key_checksum is '%s': give sha256:, sha384: or sha512: followed by" % ("0" * 64),
        ),
        ("nvidia_driver_repository_key_checksum", "sha256:abc", "give sha256:"),
        ("nvidia_driver_repository_key_checksum", "sha256:https://example.com/SHA256SUMS", "give sha256:"),
        ("gpu_operator_chart_checksum", "sha256:https://example.com/SHA256SUMS", "give sha256:"),
        ("nvidia_driver_repository_key_checksum", "md5:%s" % ("0" * 32), "give sha256:"),
        ("nvidia_driver_repository_key_fingerprint", "0" * 64, "give 40 hexadecimal digits"),
        ("nvidia_driver_repository_key_fingerprint", "EB69", "is 'EB69': give 40 hexadecimal digits"),
        ("gpu_node_hostname", "-gpu", "gpu_node_hostname is '-gpu', which is not a valid host name"),
        ("gpu_node_hostname", "a" * 64, "is not a valid host name"),
        ("gpu_node_hostname", "gpu 1", "is not a valid host name"),
        (
            "gpu_node_hosts_entries",
            [{"address": "x", "names": ["a"]}],
            "gpu_node_hosts_entries, entry 1: invalid IP address 'x'",
        ),
        (
            "gpu_node_hosts_entries",
            [{"address": "fe80::1%x\n192.0.2.9 b", "names": ["a"]}],
            "invalid IP address 'fe80::1%",
        ),
        ("gpu_node_hosts_entries", [{"address": "fe80::1%eth0 b", "names": ["a"]}], "invalid IP address 'fe80::1%"),
        ("gpu_node_hosts_entries", [{"address": "192.0.2.1", "names": "ab"}], "entry 1: names is 'ab': give a list"),
        ("gpu_node_hosts_entries", [{"address": "192.0.2.1", "names": []}], "entry 1: no names"),
        ("gpu_node_hosts_entries", [{"address": "192.0.2.1", "names": ["a", "b c"]}], "invalid host name 'b c'"),
        ("gpu_node_hosts_entries", [{"address": "192.0.2.1", "names": ["a\nb"]}], "invalid host name"),
    ],
)
def test_invalid_values(name: str, value: t.Any, words: str) -> None:
    found = value_problems({name: value}, TYPES)
    assert len(found) == 1
    assert words in found[0]


def test_an_entry_that_the_argument_specification_refuses_is_left_to_it() -> None:
    assert value_problems({"gpu_node_hosts_entries": ["x"], "nvidia_mig_lock_wait": []}, TYPES) == []
