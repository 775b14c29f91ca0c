# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""GPUs and MIG devices among the resources of the API. The resources of a layout: test_mig_resources.py."""

from __future__ import annotations

import math

import pytest

from ansible_collections.gpufleet.node.plugins.plugin_utils._layout import resources


@pytest.mark.parametrize(
    "quantity",
    ["7", "0", "+7", "1k", "1M", "1e3", "1E3", "1E", "2.5", "500m", "1u", "3n", "80000Mi", "80Gi", "1Ki", 7],
)
def test_quantities_are_those_of_the_kubernetes_client(quantity: object) -> None:
    parse_quantity = pytest.importorskip("kubernetes.utils").parse_quantity
    assert resources.count(quantity) == math.ceil(parse_quantity(quantity))


@pytest.mark.parametrize("quantity", ["", "seven", "1kk", "1 k", "0x7", "1e999999", "1" * 1000])
def test_texts_that_are_no_quantities(quantity: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity of the Kubernetes API"):
        resources.count(quantity)


@pytest.mark.parametrize("memory", ["80Gi", "1M", "80000Mi", "1e3", "500m", "x"])
def test_only_gpus_are_counted(memory: str) -> None:
    gpus = {"nvidia.com/gpu": 1, "nvidia.com/gpu.shared": 4, "nvidia.com/mig-1g.10gb.me": 2}
    others = {"cpu": "500m", "nvidia.com/hostdev": "1", "nvidia.com/gpucores": "30", "nvidia.com/gpumem": memory}
    assert resources.counts({**others, **{name: str(count) for name, count in gpus.items()}}) == gpus
    assert resources.counts(None) == {}
