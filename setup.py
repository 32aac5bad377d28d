"""What pyproject.toml cannot say: configs/ lies at the top of a checkout, and inside of the package in a wheel."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithConfigs(build_py):
    """Take configs/ along as varnet/configs; an editable install finds them where they are."""

    def run(self) -> None:
        super().run()
        for path in [] if self.editable_mode else configs():
            self.mkpath(str(Path(self.placed(path)).parent))
            self.copy_file(str(path), self.placed(path))

    def placed(self, path: Path) -> str:
        return str(Path(self.build_lib, "varnet", path))

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), *map(str, configs())]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *map(self.placed, configs())]


def configs() -> list[Path]:
    return sorted(Path("configs").rglob("*.yaml"))


setup(cmdclass={"build_py": WithConfigs})
