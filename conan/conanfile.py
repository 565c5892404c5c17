"""gpipe's recipe: headers, the CMake config that finds what they need, and with the option `compiled` the library of
gpipe::compiled. `conan create conan`."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain
from conan.tools.files import copy, load, replace_in_file

required_conan_version = ">=2.2"


class Gpipe(ConanFile):
    name = "gpipe"
    description = "Pipeline-parallel training, planned at compile time"
    license = "BSL-1.0"
    topics = ("neural-networks", "pipeline-parallelism", "header-only")
    settings = "os", "arch", "compiler", "build_type"
    # ConanCenter has neither CUDA, NCCL nor NVIDIA's Thrust, nor libxsmm. These, MPI, hwloc, libpng,
    # libjpeg and SentencePiece are the system's: the config finds them.
    options = {
        "libxsmm": ["AUTO", "ON", "OFF"],
        # change: a device
        "cuda": ["AUTO", "ON", "OFF"],
        # change: a transport
        "mpi": ["AUTO", "ON", "OFF"],
        "hwloc": ["AUTO", "ON", "OFF"],
        # change: an image format; with a library
        "png": ["AUTO", "ON", "OFF"],
        "jpeg": ["AUTO", "ON", "OFF"],
        "sentencepiece": ["AUTO", "ON", "OFF"],
        "compiled": [True, False],
    }
    default_options = {
        "libxsmm": "AUTO",
        "cuda": "OFF",
        "mpi": "OFF",
        "hwloc": "OFF",
        "png": "OFF",
        "jpeg": "OFF",
        "sentencepiece": "OFF",
        "compiled": False,
    }
    no_copy_source = True

    def set_version(self):
        numbers = re.findall(
            r"^#define GPIPE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$",
            load(self, os.path.join(self.recipe_folder, "..", "include", "gpipe", "version.hpp")),
            re.MULTILINE,
        )
        self.version = ".".join(numbers)

    def export_sources(self):
        above = os.path.join(self.recipe_folder, "..")
        for pattern in "CMakeLists.txt", "gpipe-config.cmake", "LICENSE", "CHANGELOG.md", "include/*":
            copy(self, pattern, above, self.export_sources_folder)

    def configure(self):
        self.package_type = "static-library" if self.options.compiled else "header-library"

    def layout(self):
        self.folders.root = ".."
        self.folders.build = "build/conan"
        self.folders.generators = "build/conan/generators"
        self.cpp.package.builddirs = [os.path.join("share", "cmake", "gpipe")]

    def requirements(self):
        self.requires("boost/[>=1.74 <2]", options={"header_only": True}, transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        if not self.info.options.compiled:
            self.info.settings.clear()  # headers are the same for all; the options stay in the config

    def generate(self):
        CMakeDeps(self).generate()
        CMakeToolchain(self).generate()

    def build(self):
        parts = ("TESTS", "EXAMPLES", "BENCH", "LIBXSMM", "CUDA", "MPI", "HWLOC", "PNG", "JPEG", "SENTENCEPIECE")
        variables = {"GPIPE_" + what: "OFF" for what in parts}
        if self.options.compiled:
            variables.update({"GPIPE_COMPILED": "ON", "GPIPE_LIBXSMM": str(self.options.libxsmm)})
        cmake = CMake(self)
        cmake.configure(variables=variables)
        if self.options.compiled:
            cmake.build()

    def package(self):
        CMake(self).install()
        config = os.path.join(self.package_folder, "share", "cmake", "gpipe", "gpipe-config.cmake")
        for part, value in self.options.items():
            if part == "compiled":
                continue
            told = f"set(GPIPE_{part.upper()} %s CACHE"
            replace_in_file(self, config, told % "AUTO", told % value)

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_find_mode", "none")  # the config that is installed serves
