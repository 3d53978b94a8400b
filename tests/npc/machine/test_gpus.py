"""What NVIDIA's driver tells of GPUs, by what it printed on a real node and by published outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.machine.gpus import gpus

#: Of driver 580.159.04 on a virtual machine, in the order of our properties.
H100 = (
    "0, NVIDIA H100 80GB HBM3, GPU-5b2b9da1-a2c7-8fa9-e19f-a7e9ea7fbc86, 00000000:00:06.0, 580.159.04, "
    "96.00.DA.00.0C, Enabled, Default, Disabled, Enabled, 0, 345, 2619, 1980, 2619, 72.43, 700.00, 700.00, "
    "40, 0, 81559, 0, 0x0000000000000001"
)
#: A GPU without ECC, at its power cap and hot, with a program on it; made up of real ones' words.
BUSY = (
    "1, NVIDIA GeForce RTX 3090, GPU-aaaa, 00000000:C1:00.0, 535.1, 94.02, Disabled, Default, [N/A], [N/A], "
    "[N/A], 1200, 9501, 2100, 9751, 349.90, 350.00, 350.00, 83, 100, 24576, 4000, "
    "0x0000000000000024"
)
ALONE = "\t\033[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\033[0m\nGPU0\t X \t0-15\t0\t\tN/A\n"
#: The matrix of nvidia-smi's manual, with a network card.
TWO = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tPIX\t0-31\t0\n"
    "GPU1\tNV18\t X \tSYS\t32-63\t1\nNIC0\tPIX\tSYS\t X \n\nNIC Legend:\n\n  NIC0: mlx5_0\n"
)


def driver(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *rows: str,
    topology: str,
    apps: str = "",
    unknown: str = "",
) -> None:
    """An nvidia-smi that prints these; a property that it does not know it refuses, as older ones do."""
    program = folder / "nvidia-smi"
    told = "\n".join(rows)
    program.write_text(
        f"""#!/bin/sh
case "$1" in
*{unknown or "nothing-is-unknown"}*) echo 'Field "{unknown}" is not a valid field to query.'; exit 2 ;;
--query-gpu=*) cat <<'END'
{told}
END
;;
--query-compute-apps=*) printf '%s' '{apps}' ;;
topo) cat <<'END'
{topology}
END
;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_real_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, monkeypatch, H100, topology=ALONE)
    device = tmp_path / "sys/bus/pci/devices/0000:00:06.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("-1\n")
    (device / "local_cpulist").write_text("0-15\n")
    (found,) = gpus(tmp_path)
    assert found == {
        "index": 0, "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-5b2b9da1-a2c7-8fa9-e19f-a7e9ea7fbc86",
        "address": "0000:00:06.0", "driver": "580.159.04", "vbios": "96.00.DA.00.0C", "persistence": True,
        "compute_mode": "Default", "mig": False, "ecc": True, "uncorrected_errors": 0,
        "clock_hz": 345_000_000,
        "memory_clock_hz": 2_619_000_000, "max_clock_hz": 1_980_000_000, "max_memory_clock_hz": 2_619_000_000,
        "power_w": 72.43, "power_limit_w": 700, "default_power_limit_w": 700, "temperature_c": 40,
        "utilisation": 0, "memory_bytes": 81559 * 2**20, "used_bytes": 0, "held_down_by": [],
        "numa_node": None, "near_cpus": "0-15", "processes": [], "links": {},
    }  # fmt: skip


def test_several_with_links_processes_and_reasons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apps = "GPU-aaaa, 1052, /usr/bin/python3, 3512\\n"
    driver(tmp_path, monkeypatch, H100, BUSY, topology=TWO, apps=apps.replace("\\n", "\n"))
    first, second = gpus(tmp_path)
    assert first["links"] == {"GPU1": "NV18", "mlx5_0": "PIX"}
    assert second["links"] == {"GPU0": "NV18", "mlx5_0": "SYS"}
    assert first["processes"] == []
    assert second["processes"] == [{"pid": 1052, "name": "python3", "used_bytes": 3512 * 2**20}]
    assert second["held_down_by"] == ["power cap", "thermal slowdown"]
    assert (second["ecc"], second["mig"], second["uncorrected_errors"]) == (None, None, None)
    assert second["address"] == "0000:c1:00.0"


def test_a_driver_that_knows_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = H100.replace(", Disabled, Enabled, 0,", ", Enabled, 0,")
    driver(tmp_path, monkeypatch, row, topology=ALONE, unknown="mig.mode.current")
    (found,) = gpus(tmp_path)
    assert found["mig"] is None and found["ecc"] is True and found["max_clock_hz"] == 1_980_000_000


def test_a_driver_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, monkeypatch, "No devices were found", topology="")
    assert gpus(tmp_path) == []
