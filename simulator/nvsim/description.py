# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Descriptions of nodes from the names of boards: geometry from board files, other facts from the product list."""

from __future__ import annotations

import functools
import pathlib
import typing as t
import uuid

import yaml

from .library import ACTIVATIONS, PACKAGE, QUIRKS, NodeError

INSTALLED_BOARDS = PACKAGE / "models"
BOARDS = (
    INSTALLED_BOARDS
    if INSTALLED_BOARDS.exists()
    else PACKAGE.parents[1] / "plugins" / "plugin_utils" / "_layout" / "models"
)
PRODUCTS = PACKAGE / "data" / "products.yml"
ARCHITECTURES = {"volta": 5, "turing": 6, "ampere": 7, "ada": 8, "hopper": 9, "blackwell": 10}
BUSES = (0x07, 0x0F, 0x47, 0x4E, 0x87, 0x90, 0xB7, 0xBD)  # as in an eight-GPU server; more go to further domains
MOST = 64  # SIM_MAX_GPUS
GFX = 2  # NVML_GPU_INSTANCE_PROFILE_CAPS_GFX

Data = t.Dict[str, t.Any]


def load(path: pathlib.Path) -> Data:
    with open(path, encoding="utf-8") as stream:
        # libyaml is ten times as fast, if PyYAML was built with it
        return t.cast(Data, yaml.load(stream, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


@functools.lru_cache(maxsize=None)
def load_boards() -> t.Dict[str, Data]:
    boards = [load(path) for path in sorted(BOARDS.glob("*.yml"))]
    return {board["model"]: board for board in boards}


@functools.lru_cache(maxsize=None)
def load_products() -> Data:
    return load(PRODUCTS)


def simulable(board: Data) -> bool:
    """Return whether the board's placements are known."""
    return all(profile["evidence"]["placements"] != "unknown" for profile in board["profiles"])


def find(name: str, boards: t.Dict[str, Data], products: t.Dict[str, Data]) -> str:
    """Return the product key for a board, an alias, a product key or a product name."""
    lower = name.lower()
    for key, product in products.items():
        if lower in (key.lower(), product["name"].lower()):
            return key
    for key, product in products.items():
        board = boards.get(product.get("board", ""), {})
        if lower in [known.lower() for known in [product.get("board", "")] + list(board.get("aliases", []))]:
            return key
    for model, board in boards.items():
        if model.lower() == lower and not simulable(board):
            raise NodeError("board %s cannot be simulated: its placements are not known" % model)
    choices = sorted({product.get("board", key) for key, product in products.items()} | set(products))
    raise NodeError("unknown board or product %s: use one of %s" % (name, ", ".join(choices)))


def gigabytes(profile: Data) -> int:
    """Return the memory size in a profile's name: 40 for 3g.40gb+me."""
    return int(profile["name"].split(".", 1)[1].split("gb", 1)[0])


def fill(board: Data, product: Data) -> t.List[Data]:
    """Return a board's profiles with all figures. Derived figures are marked ``derived``.

    Memory is derived from the largest profile with known memory, by placement units, or else from the name.
    Multiprocessors are the architecture's usual share of the whole. Engines are proportional to slices.
    """
    filled = []
    known = [p for p in board["profiles"] if p["memory_mib"]]
    largest = max(known, key=lambda p: p["placements"]["size"]) if known else None
    for profile in board["profiles"]:
        row = dict(profile)
        slices, size = row["slices"], row["placements"]["size"]
        whole = size == board["memory_units"]
        media = dict(row["media"])
        if row["memory_mib"] is None:
            if largest:
                row["memory_mib"] = largest["memory_mib"] * size // largest["placements"]["size"]
            else:
                row["memory_mib"] = gigabytes(row) * 1024 * 97 // 100 // 128 * 128
        if row["multiprocessors"] is None:
            total = product["multiprocessors"]
            small = next((p["multiprocessors"] for p in known if p["slices"] == 1), None) or total * 16 // 132 // 2 * 2
            share = {1: small * 26 // 16 if size > slices else small, 3: small * 60 // 16}.get(slices, small * slices)
            row["multiprocessors"] = total if whole else share // 2 * 2
        if row["copy_engines"] is None:
            per_slice = next((p["copy_engines"] for p in known if p["slices"] == 1), 1)
            row["copy_engines"] = per_slice * (size if whole else slices)
        for engine, count in (
            ("dec", slices),
            ("enc", 0),
            ("jpeg", slices),
            ("ofa", int(whole or "+me" in row["name"])),
        ):
            if media[engine] is None:
                media[engine] = count
        row["media"] = media
        row["derived"] = (
            row["memory_mib"] != profile["memory_mib"]
            or row["multiprocessors"] != profile["multiprocessors"]
            or row["copy_engines"] != profile["copy_engines"]
            or media != profile["media"]
        )
        filled.append(row)
    return filled


def old_name(profile: Data) -> str:
    """Return the profile name in old drivers: 3g.39gb for 3g.40gb."""
    head, tail = profile["name"].split(".", 1)
    return "%s.%dgb%s" % (head, (profile["memory_mib"] + 512) // 1024, tail.split("gb", 1)[1])


def branch(driver: str) -> int:
    try:
        return int(driver.split(".")[0])
    except ValueError:
        raise NodeError("a driver version looks like 550.163.01, not %s" % driver) from None


def by_branch(table: t.Mapping[int, t.Any], number: int) -> t.Any:
    """Return the entry of the newest branch up to the driver's."""
    return table[max([known for known in table if known <= number], default=min(table))]


class RequestedGpu(t.NamedTuple):
    """A GPU that a node is to have. What is None is derived from the product."""

    product: str  # key
    uuid: t.Optional[str] = None
    bus_id: t.Optional[str] = None
    serial: t.Optional[str] = None
    vbios: t.Optional[str] = None
    part_number: t.Optional[str] = None
    pci: t.Optional[str] = None  # device and vendor, as hexadecimal digits
    subsystem: t.Optional[str] = None


def gpu_uuid(index: int, seed: str) -> str:
    return "GPU-%s" % uuid.uuid5(uuid.UUID(int=0), "nvsim %s %d" % (seed, index))


def fabric(product: Data, seed: str) -> t.List[str]:
    """Return the NVSwitch fabric of a product, if any."""
    if "fabric" not in product:
        return []
    if product["fabric"] == "node":
        return ["fabric 1"]
    return ["fabric 1", "fabric_clique 1", "fabric_cluster %s" % uuid.uuid5(uuid.UUID(int=0), "nvsim fabric " + seed)]


def place(index: int, bus_id: t.Optional[str]) -> t.Tuple[int, int, int]:
    """Return domain, bus and device."""
    if bus_id is None:
        return index // len(BUSES), BUSES[index % len(BUSES)], 0
    try:
        domain, bus, device = ("0:" + bus_id).rsplit(":", 2)
        return int(domain.split(":")[-1], 16), int(bus, 16), int(device.split(".")[0], 16)
    except ValueError:
        raise NodeError("a PCI bus id looks like 00000000:47:00.0, not %s" % bus_id) from None


def hexadecimal(digits: str) -> str:
    """Return 0x20B210DE for 20B210DE or 0x20B210DE."""
    try:
        return "0x%08X" % int(digits, 16)
    except ValueError:
        raise NodeError("a PCI device id looks like 20B210DE, not %s" % digits) from None


def describe(
    requested: t.Sequence[RequestedGpu],
    driver: t.Optional[str] = None,
    cuda: t.Optional[str] = None,
    activation: str = "auto",
    quirks: t.Sequence[str] = (),
    recorded: t.Optional[t.Mapping[str, t.Mapping[str, str]]] = None,
    seed: str = "0",
) -> str:
    """Return the description from which the library creates a node (see src/describe.c)."""
    if len(requested) > MOST:
        raise NodeError("a node has at most %d GPUs, not %d" % (MOST, len(requested)))
    places = [place(index, gpu.bus_id) for index, gpu in enumerate(requested)]
    identities = [gpu.uuid or gpu_uuid(index, seed) for index, gpu in enumerate(requested)]
    given = [found for found, gpu in zip(places, requested) if gpu.bus_id is not None]
    for name, values in (("PCI bus id", given), ("UUID", identities)):
        if len({*values}) < len(values):
            raise NodeError("two GPUs have the same %s" % name)
    boards, data = load_boards(), load_products()
    products = data["products"]
    blackwell = any(
        boards[products[gpu.product]["board"]]["architecture"] == "blackwell"
        for gpu in requested
        if "board" in products[gpu.product]
    )
    driver = driver or data["drivers"]["default_blackwell" if blackwell else "default"]
    number = branch(driver)
    cuda = cuda or by_branch(data["drivers"]["cuda"], number)
    major, minor = (int(part) for part in str(cuda).split("."))
    profile_count = by_branch(data["drivers"]["profiles"], number)
    lines = [
        "driver_version %s" % driver,
        "nvml_version %d.%s" % (major, driver),
        "cuda_version %d" % (major * 1000 + minor * 10),
        "activation %d" % ACTIVATIONS.index(activation),
        "quirks %d" % sum(1 << QUIRKS.index(quirk) for quirk in quirks),
        "gi_profile_count %d" % profile_count,
    ]
    for index, (gpu, (domain, bus, device), identity) in enumerate(zip(requested, places, identities)):
        product = products[gpu.product]
        board = boards[product["board"]] if "board" in product else None
        architecture = board["architecture"] if board else product["architecture"]
        lines += [
            "gpu",
            "name %s" % product["name"],
            "board %s" % (board["model"] if board else gpu.product),
            "uuid %s" % identity,
            "minor %d" % index,
            "serial %s" % (gpu.serial or 1560000000000 + index),
            "part_number %s" % (gpu.part_number or product["part_number"]),
            "vbios %s" % (gpu.vbios or product["vbios"]),
            "pci_domain %d" % domain,
            "pci_bus %d" % bus,
            "pci_device %d" % device,
            "pci_device_id %s" % hexadecimal(gpu.pci or product["pci"]),
            "pci_subsystem_id %s" % hexadecimal(gpu.subsystem or product["subsystem"]),
            "architecture %d" % ARCHITECTURES[architecture],
            "capability_major %s" % product["capability"].split(".")[0],
            "capability_minor %s" % product["capability"].split(".")[1],
            "memory_mib %d" % product["memory_mib"],
            "multiprocessors %d" % product["multiprocessors"],
            "power_limit_mw %d" % (product["power_w"] * 1000),
            "power_default_mw %d" % (product["power_w"] * 1000),
            *fabric(product, seed),
            "ecc_supported 1",
            "ecc_current 1",
            "ecc_pending 1",
        ]
        for place_of, name in sorted((recorded or {}).get(identity, {}).items()):
            lines.append("recorded %s %s" % (place_of.replace("/", " "), name))
        if board:
            lines += mig(board, fill(board, product), data["differences"], number, profile_count, "old-names" in quirks)
    return "\n".join(lines) + "\n"


def at_branch(profile: Data, model: str, differences: t.Sequence[Data], number: int) -> t.Optional[Data]:
    """Return a profile as in a driver of this branch; None if it is newer than the driver."""
    for change in differences:
        applies = number < change["below"] if "below" in change else number >= change["from"]
        if applies and (change["board"], change["constant"]) == (model, profile["constant"]):
            if change["set"] is None:
                return None
            profile = dict(profile, **change["set"])
    return profile


def mig(
    board: Data, profiles: t.Sequence[Data], differences: t.Sequence[Data], number: int, count: int, old_names: bool
) -> t.List[str]:
    ampere = board["architecture"] == "ampere"
    lines = [
        "mig_capable 1",
        "resetless %d" % (not ampere),
        "mode_persists %d" % ampere,
        "memory_units %d" % board["memory_units"],
        "compute_slices %d" % board["compute_slices"],
        "max_gpu_instances %d" % board["max_gpu_instances"],
    ]
    for row in profiles:
        profile = at_branch(row, board["model"], differences, number)
        if profile is None or profile["constant"] >= count:
            continue
        media = profile["media"]
        lines += [
            "profile %d" % profile["constant"],
            "name %s" % (old_name(profile) if old_names else profile["name"]),
            "id %d" % profile["id"],
            "slices %d" % profile["slices"],
            "memory_mib %d" % profile["memory_mib"],
            "multiprocessors %d" % profile["multiprocessors"],
            "max_instances %d" % profile["max_instances"],
            "copy_engines %d" % profile["copy_engines"],
            "decoders %d" % media["dec"],
            "encoders %d" % media["enc"],
            "jpeg %d" % media["jpeg"],
            "ofa %d" % media["ofa"],
            "capabilities %d" % (GFX if "+gfx" in profile["name"] else 0),
            "size %d" % profile["placements"]["size"],
            "starts %s" % " ".join(str(start) for start in profile["placements"]["starts"]),
            "derived %d" % profile["derived"],
        ]
    return lines
