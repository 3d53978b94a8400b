# Spack's recipe of NPC. With the wheel in the present folder (pip wheel --no-deps CHECKOUT):
#
#   spack repo add CHECKOUT/packaging/spack/spack_repo/npc
#   spack install --no-checksum npc-suite
#
# A wheel that you have made yourself has no sum that could stand here. The dependencies are pyproject.toml's.
from pathlib import Path

from spack.package import depends_on, license, version
from spack_repo.builtin.build_systems.python import PythonPackage


class NpcSuite(PythonPackage):
    """Network Performance Collector: characterises an HPC cluster's network, memory and compute with one
    command."""

    manual_download = True
    url = f"file://{Path.cwd()}/npc_suite-0.1.0-py3-none-any.whl"

    license("Apache-2.0")

    version("0.1.0", expand=False)

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("jube@2.5:", type="run")
    depends_on("mpi", type="run")

    depends_on("py-click@8.3.1:", type="run")
    depends_on("py-filelock@3.12:", type="run")
    depends_on("py-jinja2@3.1:", type="run")
    depends_on("py-matplotlib@3.9:", type="run")
    depends_on("py-mpi4py@4.1:", type="run")
    depends_on("py-msgspec@0.21:", type="run")
    depends_on("py-numpy@2.0:", type="run")
    depends_on("py-prometheus-client@0.21:", type="run")
    depends_on("py-psutil@5.9.4:", type="run")
    depends_on("py-pyelftools@0.32:", type="run")
    depends_on("py-pyyaml@6.0.2:", type="run")
    depends_on("py-rich@13.0:", type="run")
    depends_on("py-scipy@1.13:", type="run")
    depends_on("py-tomli@2.0:", type="run", when="^python@:3.10")
