"""What a checkout has beside its packages travels in the wheel, below pcqc_base/shipped/.

`analysis` and `data_prep` stay out of the environment's own names, which are too common for them.
"""

from pathlib import Path
from shutil import copytree, ignore_patterns

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("analysis", "config", "data_prep", "models")


class WithCheckout(build_py):
    """Copies the folders of `SHIPPED` beside the packages, but into no editable install."""

    def run(self) -> None:
        """Copy the packages, then the folders."""
        super().run()
        if not self.editable_mode:
            for name in SHIPPED:
                target = Path(self.build_lib, "pcqc_base", "shipped", name)
                copytree(name, target, ignore=ignore_patterns("__pycache__"), dirs_exist_ok=True)


setup(cmdclass={"build_py": WithCheckout})
