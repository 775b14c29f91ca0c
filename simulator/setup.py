# Copyright (c) 2026, the gpufleet.node authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of the build that pyproject.toml cannot describe: the library, compiled by the Makefile."""

import os
import shutil
import subprocess
import sys
import tempfile

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))


def copy_boards(package):
    """Copy the boards of the collection, or in a source archive those that it holds."""
    collection = os.path.join(os.path.dirname(HERE), "plugins", "plugin_utils", "_layout", "models")
    folder = next(filter(os.path.isdir, (os.path.join(HERE, "nvsim", "models"), collection)), None)
    if not folder:
        sys.exit("%s is missing: use pip 21.3 or later, which builds nvsim in its place" % collection)
    shutil.copytree(folder, os.path.join(package, "models"))


class Platform(Distribution):
    def has_ext_modules(self):
        return True


class Build(build_py):
    def run(self):
        super().run()
        for program in ("make", os.environ.get("CC", "cc")):
            if not shutil.which(program):
                sys.exit("nvsim needs make and a C compiler (cc, or CC=NAME): %s is not on PATH" % program)
        package = os.path.join(os.path.abspath(self.build_lib), "nvsim")
        copy_boards(package)
        with tempfile.TemporaryDirectory() as built:
            subprocess.check_call(["make", "-s", "-C", HERE, "OUT=" + built, "WERROR="])
            os.makedirs(os.path.join(package, "lib"), exist_ok=True)
            shutil.copy(os.path.join(built, "libnvidia-ml.so.1"), os.path.join(package, "lib"))


class Archive(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        copy_boards(os.path.join(base_dir, "nvsim"))


class Wheel(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


with tempfile.TemporaryDirectory() as scratch:
    # Only a source archive has its metadata among the files. Otherwise nothing is written here: a collection may be
    # installed where the user cannot write.
    places = {} if "sdist" in sys.argv else {"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}}
    setup(
        license="GPL-3.0-or-later",
        distclass=Platform,
        cmdclass={"bdist_wheel": Wheel, "build_py": Build, "sdist": Archive},
        options=places,
    )
