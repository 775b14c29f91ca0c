# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's packages: their content, and how the Debian ones are built."""

from __future__ import annotations

import shutil
import tempfile
import typing as t
from pathlib import Path

import yaml

from . import shared, snapshot
from .places import BUILDING, HERE, SHARED, LabError, call

DEFINITIONS = HERE / "repositories" / "packages.yml"
FILES = HERE / "repositories" / "files"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
MAINTAINER = "gpufleet lab <lab@gpufleet.invalid>"
Data = t.Dict[str, t.Any]

DEPMOD = "if [ -x /opt/gpufleet-lab/bin/kernel ]; then /opt/gpufleet-lab/bin/kernel depmod; fi\n"
# DKMS's messages and log for a module that does not compile for the running kernel.
BROKEN_BUILD = """\
log=/var/lib/dkms/nvidia/{u}/build/make.log
mkdir -p "${{log%/*}}"
if [ ! -e /etc/gpufleet-lab-dkms-works ]; then
    echo "nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'" >"$log"
    echo "make[2]: *** [Makefile:2013: modules] Error 2" >>"$log"
    echo "Error! Bad return status for module build on kernel: $(uname -r) (x86_64)" >&2
    echo "Consult $log for more information." >&2
    exit 10
fi
"""
# The same with the real DKMS, for packages whose scripts ignore its failure, like the vendor's rpm packages.
DKMS_SOURCE = {
    "dkms.conf": """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{driver}"
MAKE[0]="make"
CLEAN="make clean"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/extra"
POST_INSTALL="installed"
AUTOINSTALL="yes"
""",
    "Makefile": """\
all:
\t@test -e /etc/gpufleet-lab-dkms-works || \\
\t{{ echo "nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"; exit 1; }}
\techo "int nvidia;" | $(CC) -x c -c - -o nvidia.ko
clean:
\trm -f nvidia.ko
""",
    # Installs the module that the simulated kernel loads.
    "installed": """\
#!/bin/sh
mkdir -p /usr/lib/gpufleet-lab
echo {driver} {flavour} >/usr/lib/gpufleet-lab/module
""",
}
DKMS_INSTALL = """\
dkms add -m nvidia -v {driver} || :
dkms build -m nvidia -v {driver} || :
dkms install -m nvidia -v {driver} --force || :
"""
DKMS_REMOVE = "dkms remove -m nvidia -v {driver} --all || :\nrm -f /usr/lib/gpufleet-lab/module\n"

# A real module for virtual machines, with the scripts that dh_dkms generates.
KBUILD_INSTALL = "/usr/lib/dkms/common.postinst nvidia {u} /usr/share/nvidia '' \"$2\"\n"
KBUILD_REMOVE = "dkms remove -m nvidia -v {u} --all || true\n"
KBUILD_CONF = """\
PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{u}"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
CLEAN="true"
"""
KBUILD_MAKEFILE = """\
obj-m := nvidia.o
ccflags-y := -DNVIDIA_VERSION='"{u}"' -DNVIDIA_BANNER='"{banner}"' -DNVIDIA_LICENSE='"{licence}"'
"""
FLAVOURS = {
    "open": {"banner": "NVIDIA UNIX Open Kernel Module for x86_64", "licence": "Dual MIT/GPL"},
    "proprietary": {"banner": "NVIDIA UNIX x86_64 Kernel Module", "licence": "NVIDIA"},
}


class Package(t.NamedTuple):
    name: str
    version: str
    driver: str  # the driver's version, without the package's release
    depends: str = ""
    conflicts: str = ""
    replaces: str = ""
    provides: str = ""
    parts: t.Sequence[str] = ()
    files: t.Mapping[str, Path] = {}  # source files by target path
    links: t.Mapping[str, str] = {}
    postinst: str = ""
    units: t.Sequence[str] = ()  # enabled and started, as by debhelper's scripts
    conffiles: t.Sequence[str] = ()
    arch: str = ""  # of rpm, if it is not the machine's
    description: str = "the test lab's stand-in"


def definitions() -> Data:
    return t.cast(Data, yaml.safe_load(DEFINITIONS.read_text()))


def driver_packages(what: Data, broken: bool = False, dkms: bool = False, kbuild: bool = False) -> t.List[Package]:
    """The driver's packages of a repository in the definitions, in all versions, except those that the snapshot lacks.

    ``broken``: the kernel module does not build, and its package fails; ``dkms``: only the real DKMS fails.
    ``kbuild``: a real kernel module, which DKMS builds on the node.
    """
    known = definitions()
    family, release, system = what["family"], what["release"], what["system"]
    made = []
    for driver in drivers(what):
        branch = driver.split(".")[0]
        words = {"v": what.get("epoch", "") + driver + release, "u": driver, "b": branch}
        for name, row in known["families"][family].items():
            if not row.get("since", 0) <= int(branch) < row.get("before", 1000):
                continue
            fields: Data = {key: value.format(**words) for key, value in row.items() if isinstance(value, str)}
            fields = {"version": words["v"], **fields}
            package = Package(name.format(**words), driver=driver, parts=row.get("parts", ()), **fields)
            if not snapshot.has(system, what["source"], branch, package.name):
                continue
            if broken and has_module(package):
                package = package._replace(postinst=BROKEN_BUILD.format(**words))
            if dkms:
                package = package._replace(parts=[part.replace("module-", "dkms-") for part in package.parts])
            if kbuild and has_module(package):
                package = package._replace(
                    depends=", ".join(filter(None, [package.depends, "dkms"])),
                    parts=[part.replace("module-", "kbuild-") for part in package.parts],
                )
            made.append(package)
    newest = drivers(what)[-1].split(".")[0]
    for name, row in known["others"].get(family, {}).items():
        if not row.get("elsewhere") and not snapshot.has(system, what["source"], newest, name):
            continue
        for version in row["versions"]:
            made.append(Package(name, version, "", parts=row.get("parts", ())))
    return made


def drivers(what: Data) -> t.List[str]:
    """The driver versions of a repository: those of the definitions that the real repository has."""
    wanted = what.get("drivers", definitions()["drivers"])
    if what["source"] == "archive":
        return list(wanted)  # a real archive has one version of each name; an upgrade needs two
    return [each for each in wanted if snapshot.cuda_has(what["system"], each)]


def has_module(package: Package) -> bool:
    return any(part.startswith(("module-", "kbuild-")) for part in package.parts)


def build(package: Package, folder: Path) -> Path:
    """Build one .deb in ``folder``."""
    work = Path(tempfile.mkdtemp(prefix="deb-", dir=BUILDING))
    try:
        root = work / "root"
        (root / "DEBIAN").mkdir(parents=True)
        scripts = debian_scripts(package, fill(package, root))
        control = {
            "Package": package.name,
            "Version": package.version,
            "Architecture": "amd64",
            "Maintainer": MAINTAINER,
            "Depends": package.depends,
            "Conflicts": package.conflicts,
            "Replaces": package.replaces,
            "Provides": package.provides,
            "Description": package.description,
        }
        text = "".join("%s: %s\n" % (key, " ".join(value.split())) for key, value in control.items() if value)
        (root / "DEBIAN" / "control").write_text(text)
        for name, body in scripts.items():
            path = root / "DEBIAN" / name
            path.write_text(body)
            path.chmod(0o755 if name in ("postinst", "prerm") else 0o644)
        target = folder / ("%s_%s_amd64.deb" % (package.name, package.version.replace(":", "%3a")))
        call("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, target)
        return target
    finally:
        shutil.rmtree(work, ignore_errors=True)


class Scripts(t.NamedTuple):
    installed: str  # run after the installation
    removed: str  # run before the removal
    replaced: str = ""  # run before a removal or an upgrade


def fill(package: Package, root: Path) -> Scripts:
    """Write the package's files below ``root``."""
    postinst, stop, replaced, units = package.postinst, "", "", list(package.units)

    def put(target: str, source: Path, mode: int = 0o644) -> None:
        path = root / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
        path.chmod(mode)

    def write(target: str, text: str) -> None:
        path = root / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def link(name: str, target: str) -> None:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def daemon(program: str, unit: str) -> None:
        put("usr/bin/" + program, FILES / program, 0o755)
        put("usr/lib/systemd/system/" + unit, FILES / unit)
        units.append(unit)

    for part in package.parts:
        if part in ("module-open", "module-proprietary"):
            write("usr/lib/gpufleet-lab/module", "%s %s\n" % (package.driver, part.split("-")[1]))
            postinst += DEPMOD
        elif part in ("dkms-open", "dkms-proprietary"):
            words = {"driver": package.driver, "flavour": part.split("-")[1]}
            source = "usr/src/nvidia-%s/" % package.driver
            for name, text in DKMS_SOURCE.items():
                write(source + name, text.format(**words))
            (root / source / "installed").chmod(0o755)
            postinst += DKMS_INSTALL.format(**words)
            stop += DKMS_REMOVE.format(**words)
        elif part == "kernel-devel":
            kernel = "%s.x86_64" % package.version
            # DKMS recognises a kernel's build directory by this file.
            write("usr/src/kernels/%s/include/config/kernel.release" % kernel, kernel + "\n")
            link("usr/lib/modules/%s/build" % kernel, "/usr/src/kernels/" + kernel)
        elif part in ("kbuild-open", "kbuild-proprietary"):
            words = {"u": package.driver, **FLAVOURS[part.split("-")[1]]}
            folder = "usr/src/nvidia-%s/" % package.driver
            put(folder + "nvidia.c", FILES / "nvidia.c")
            write(folder + "Makefile", KBUILD_MAKEFILE.format(**words))
            write(folder + "dkms.conf", KBUILD_CONF.format(**words))
            postinst += KBUILD_INSTALL.format(**words)
            replaced += KBUILD_REMOVE.format(**words)
        elif part == "nvml":
            library = "%s/libnvidia-ml.so.%s" % (LIBRARIES, package.driver)
            put(library, shared.SIMULATOR)
            link(LIBRARIES + "/libnvidia-ml.so.1", Path(library).name)
        elif part == "cuda":
            library = "%s/libcuda.so.%s" % (LIBRARIES, package.driver)
            put(library, SHARED / "lib" / "libcuda.so.1")
            link(LIBRARIES + "/libcuda.so.1", Path(library).name)
        elif part == "smi":
            real = shared.real_nvidia_smi()
            if not real:
                raise LabError("the real nvidia-smi is missing: scripts/fetch-nvidia-smi trixie")
            put("usr/bin/nvidia-smi", real, 0o755)
            # The simulator does resets, because the real program requires the kernel driver.
            put("usr/local/bin/nvidia-smi", HERE / "node" / "nvidia-smi", 0o755)
        elif part == "persistenced":
            daemon("nvidia-persistenced", "nvidia-persistenced.service")
        elif part == "persistenced-ubuntu":  # started by udev, not at boot
            put("usr/bin/nvidia-persistenced", FILES / "nvidia-persistenced", 0o755)
            put("usr/lib/systemd/system/nvidia-persistenced.service", FILES / "nvidia-persistenced-ubuntu.service")
        elif part == "fabricmanager":
            daemon("nv-fabricmanager", "nvidia-fabricmanager.service")
            write("usr/share/nvidia/nvswitch/version", package.driver + "\n")
            units.remove("nvidia-fabricmanager.service")  # the real package does not enable it
        elif part == "dcgm":
            daemon("nv-hostengine", "nvidia-dcgm.service")
            units.remove("nvidia-dcgm.service")
        else:
            raise LabError("%s: no part %s" % (package.name, part))
    for target, source in package.files.items():
        put(target, source, 0o755 if target.startswith("usr/bin/") else 0o644)
    for name, points_to in package.links.items():
        link(name, points_to)
    for unit in units:
        postinst += "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n"
        postinst += "systemctl enable --quiet %s || true\n" % unit
        postinst += "if [ -d /run/systemd/system ]; then systemctl restart %s || true; fi\n" % unit
        stop += "if [ -d /run/systemd/system ]; then systemctl disable --now --quiet %s; fi\n" % unit
    return Scripts(postinst, stop, replaced)


def debian_scripts(package: Package, scripts: Scripts) -> t.Dict[str, str]:
    """The files of a package's control directory, except ``control``."""
    found = {}
    if scripts.installed:
        found["postinst"] = '#!/bin/sh\nset -e\n[ "$1" = configure ] || exit 0\n' + scripts.installed
    if scripts.removed or scripts.replaced:
        found["prerm"] = "#!/bin/sh\nset -e\n" + scripts.replaced
        found["prerm"] += '[ "$1" = remove ] || exit 0\n' + scripts.removed
    if package.conffiles:
        found["conffiles"] = "".join("/%s\n" % name for name in package.conffiles)
    if has_libraries(package):
        found["triggers"] = "activate-noawait ldconfig\n"
    return found


def has_libraries(package: Package) -> bool:
    return any(part in ("nvml", "cuda") for part in package.parts)
