"""What pyproject.toml cannot say: configs/ and networks/ lie at the top of a checkout, and inside of the package in a
wheel, which leaves out large networks."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

LARGEST = 500_000  # bytes of a network in a wheel


class WithConfigs(build_py):
    """Take configs/ and networks/ along as varnet/configs and varnet/networks; an editable install finds them where
    they are."""

    def run(self) -> None:
        super().run()
        for path in [] if self.editable_mode else beside():
            self.mkpath(str(Path(self.placed(path)).parent))
            self.copy_file(str(path), self.placed(path))

    def placed(self, path: Path) -> str:
        return str(Path(self.build_lib, "varnet", path))

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), *map(str, beside())]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *map(self.placed, beside())]


def beside() -> list[Path]:
    """What lies beside the package and belongs to it."""
    weights = (path for path in Path("networks").glob("*/network.safetensors") if path.stat().st_size <= LARGEST)
    return [
        *sorted(Path("configs").rglob("*.yaml")),
        *(file for path in sorted(weights) for file in _files(path.parent)),
    ]


def _files(network: Path) -> list[Path]:
    return [network / name for name in ("README.md", "card.yaml", "network.safetensors")]


setup(cmdclass={"build_py": WithConfigs})
