"""The compiled parts, with flags that depend on the compiler. Everything else stands in pyproject.toml."""

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# A product and a sum must each round: fused into one instruction they would give other codes on some processors.
GCC_AND_CLANG = ["-O3", "-ffp-contract=off"]
MSVC = ["/O2", "/fp:precise"]


class BuildWithFlags(build_ext):
    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = MSVC if self.compiler.compiler_type == "msvc" else GCC_AND_CLANG
        super().build_extension(ext)


def part(name: str, *headers: str) -> Extension:
    """A part that the package works without; hashlearn/compiled.py says what is lost when it cannot be built."""
    source = f"src/hashlearn/{name}.c"
    return Extension(
        f"hashlearn.{name.replace('/', '.')}", [source], depends=[*headers], py_limited_api=True, optional=True
    )


HEADER = "src/hashlearn/pairwise/_processors.h"
PARTS = [
    part("pairwise/_flips", HEADER),
    part("pairwise/_slopes", HEADER),
    part("index/_scan", "src/hashlearn/index/_kernel.h"),
]

setup(ext_modules=PARTS, cmdclass={"build_ext": BuildWithFlags})
