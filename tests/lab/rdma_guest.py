"""A virtual machine with an RDMA device in software, for a machine without one.

QEMU boots Debian's own kernel, which has the driver ``rdma_rxe`` (RoCE over any network device), with the
host's files, read-only, as its own: so the guest has the host's tools, its Python environment and this
checkout without copying any. Nothing is loaded or mounted on the host, and the guest has no network card:
its RDMA device stands on a dummy interface at `ADDRESS`.
"""

from __future__ import annotations

import functools
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

#: The RDMA device and the address of its interface in the guest.
DEVICE: Final = "rxe0"
ADDRESS: Final = "10.99.0.1"
#: The folder of the host that the guest may write to, as the guest sees it.
SHARED: Final = "/run/shared"
#: Where the kernel is kept, so that it is fetched once: 70 MB to fetch, 11 MB to keep.
CACHE: Final = Path(sys.prefix) / "share" / "npc" / "rdma-guest"
#: The package that depends on the newest kernel with all drivers; Debian's cloud kernels have no RDMA.
_PACKAGE: Final = "linux-image-amd64"
_MODULES: Final = ("virtio_pci", "9pnet_virtio", "9p", "dummy", "crc32_generic", "rdma_ucm", "rdma_rxe")
_TOOLS: Final = {
    "qemu-system-x86_64": "qemu-system-x86",
    "busybox": "busybox-static",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
    "rdma": "iproute2",
    "ib_write_bw": "perftest",
    "qperf": "qperf",
}
_LIMIT_OF_DOWNLOAD_S: Final = 300.0
#: What a guest that lives for minutes and runs only our script does without: zeroed memory, random addresses,
#: audit, security modules, watchdogs, self-tests, waiting for grace periods, small pages, a check of the
#: timer that panics where the host is busy.
_SPARED: Final = (
    "init_on_alloc=0 norandmaps nokaslr audit=0 lsm=capability nowatchdog transparent_hugepage=always "
    "rcupdate.rcu_expedited=1 cryptomgr.notests no_timer_check"
)
#: An emulated processor moves memory byte by byte where it is said to have fast string instructions (ERMS,
#: FSRM), and pays at its memory accesses for a fifth level of page tables and for protection nobody attacks.
_EMULATED_CPU: Final = "max,erms=off,fsrm=off,la57=off,pku=off,smap=off,smep=off"

#: The guest's first process: loads the drivers in order, makes the host's files its own, runs the script.
_INIT: Final = f"""#!/busybox sh
for module in /modules/*; do /busybox insmod "$module" || echo "insmod $module failed"; done
attach() {{ /busybox mount -t 9p -o "trans=virtio,version=9p2000.L,msize=524288,$2" "$1" "$3"; }}
attach host ro,cache=loose /host && cd /host || /busybox poweroff -f
/busybox mount -t proc proc proc
/busybox mount -t sysfs sys sys
/busybox mount -t devtmpfs dev dev
/busybox mkdir -p dev/shm dev/pts
/busybox mount -t tmpfs shm dev/shm
/busybox mount -t devpts pts dev/pts
/busybox mount -t tmpfs run run
/busybox mkdir .{SHARED} run/tmp
attach shared cache=none .{SHARED}
/busybox chroot . /bin/sh {SHARED}/.start
/busybox poweroff -f
"""
#: What runs in the host's files: an RDMA device, then the script, whose exit code is the last file written.
#: The device is made of soft interrupts: they come before the benchmarks, which poll and would share the
#: processors with them evenly.
_START: Final = f"""
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export TMPDIR=/run/tmp HOME=/run LC_ALL=C.UTF-8
cd {SHARED}
exec > .log 2>&1 < /dev/null
hostname guest
ip link set lo up
ip link add roce type dummy && ip link set roce mtu 9000 up && ip address add {ADDRESS}/24 dev roce
rdma link add {DEVICE} type rxe netdev roce
for task in /proc/[0-9]*; do
    read -r name < $task/comm
    case $name in ksoftirqd/*) chrt --fifo --pid 1 ${{task#/proc/}} ;; esac
done
sh ./.script
echo $? > .exit
"""


class GuestFailed(RuntimeError):
    """The guest did not come to the end of its script; the message has what it said last."""


@functools.cache
def problem() -> str:
    """Why there can be no guest on this machine; empty where there can."""
    if platform.machine() != "x86_64":
        return f"the guest is x86_64, this machine is {platform.machine()}"
    missing = [package for tool, package in _TOOLS.items() if shutil.which(tool) is None]
    if missing:
        return f"apt-get install {' '.join(missing)} (make test does)"
    if not (CACHE / "vmlinuz").exists() and not _kernel_package():
        return f"apt knows no {_PACKAGE}, the kernel with the driver rdma_rxe (Debian has it)"
    return ""


#: The guest works longest, and others wait for its worker at the end: its session has more of the CPUs than
#: others do (sched(7), autogroup), where that may be had.
_FIRST: Final = ("sh", "-c", 'echo -10 2> /dev/null > /proc/self/autogroup; exec "$@"', "sh")


def run(script: str, folder: Path, limit_s: float = 100.0) -> tuple[int, str]:
    """Run a shell script in a new guest; its exit code, and what it printed on both streams.

    script: runs in `folder`, the only place that lasts, as root, with the RDMA device `DEVICE` at `ADDRESS`.
    limit_s: seconds until the guest is ended by force, then and on any other way out. Raises `GuestFailed`.
    """
    (folder / ".script").write_text(script, encoding="utf-8")
    (folder / ".start").write_text(_START, encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="rdma-guest-") as scratch:
        initramfs = Path(scratch) / "initramfs"
        initramfs.write_bytes(b"".join(_archive(_files_to_boot())))
        try:
            ended = subprocess.run(
                [*_FIRST, *_qemu(initramfs, folder)], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=limit_s, start_new_session=True,
            )  # fmt: skip
            console = ended.stdout + ended.stderr
        except subprocess.TimeoutExpired as late:
            console = (late.stdout or b"") + f"\nnot done after {limit_s:g} s".encode()
    log = folder / ".log"
    printed = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if not (folder / ".exit").exists():
        raise GuestFailed(console.decode(errors="replace")[-2000:] + printed[-2000:])
    return int((folder / ".exit").read_text()), printed


def _qemu(initramfs: Path, folder: Path) -> list[str]:
    """The command line of the machine."""
    command = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
    command += [*_accelerator(), "-machine", "q35", "-smp", str(min(4, os.cpu_count() or 1)), "-m", "1G"]
    command += ["-serial", "stdio", "-kernel", str(CACHE / "vmlinuz"), "-initrd", str(initramfs)]
    command += ["-append", f"console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable {_SPARED}"]
    for tag, path, mode in (("host", Path("/"), ",readonly=on"), ("shared", folder, "")):
        given = f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}"
        command += ["-fsdev", given, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return command


def _accelerator() -> list[str]:
    """KVM where the processor has it, else emulation.

    A ``/dev/kvm`` that opens proves nothing: a machine that is virtual itself may offer one that interprets.
    Emulated processors take turns in one thread: far less CPU time for the same jobs than with a thread each.
    """
    flags = re.search(r"^flags\s*:.* (vmx|svm) ", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    if flags and os.access("/dev/kvm", os.R_OK | os.W_OK):
        return ["-accel", "kvm", "-cpu", "host"]
    return ["-accel", "tcg,thread=single", "-cpu", _EMULATED_CPU]


# -- the kernel ----------------------------------------------------------------------------------------


def _kernel_package() -> str:
    """The name of the newest kernel's package; empty where apt does not know it."""
    depends = subprocess.run(["apt-cache", "depends", _PACKAGE], capture_output=True, text=True, check=False)
    found = re.search(r"Depends: (linux-image-[0-9]\S*)", depends.stdout)
    return found[1] if found else ""


def _fetch_kernel() -> None:
    """Fill `CACHE` with the kernel and the modules that it needs, named in the order of their loading."""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".rdma-guest-", dir=CACHE.parent) as scratch:
        folder = Path(scratch)
        subprocess.run(
            ["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", _kernel_package()],
            cwd=folder,
            capture_output=True,
            timeout=_LIMIT_OF_DOWNLOAD_S,
            check=True,
        )
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "--extract", package, folder / "package"], timeout=120, check=True)
        (image,) = folder.glob("package/boot/vmlinuz-*")
        kept = folder / "kept"
        (kept / "modules").mkdir(parents=True)
        for number, (name, module) in enumerate(_in_order(folder / "package").items()):
            (kept / "modules" / f"{number:02d}-{name}.ko").write_bytes(module)
        shutil.copy(image, kept / "vmlinuz")
        shutil.rmtree(CACHE, ignore_errors=True)
        kept.rename(CACHE)


def _in_order(package: Path) -> dict[str, bytes]:
    """The modules that the guest loads, each behind those that it needs; what is built in is left out."""
    paths = {path.name.partition(".ko")[0].replace("-", "_"): path for path in package.rglob("*.ko*")}
    found: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in found or name not in paths:
            return
        data = paths[name].read_bytes()
        module = lzma.decompress(data) if paths[name].suffix == ".xz" else data
        depends = re.search(rb"\0depends=([^\0]*)\0", module)
        for other in depends[1].decode().split(",") if depends else ():
            add(other.replace("-", "_"))
        found[name] = module

    for name in _MODULES:
        add(name)
    return found


def _files_to_boot() -> dict[str, bytes | None]:
    """What the guest begins with: path → content, None for a folder."""
    if not (CACHE / "vmlinuz").exists():
        _fetch_kernel()
    busybox = shutil.which("busybox")
    assert busybox
    modules = sorted((CACHE / "modules").iterdir())
    return {
        "init": _INIT.encode(),
        "busybox": Path(busybox).read_bytes(),
        "host": None,
        "modules": None,
        **{f"modules/{path.name}": path.read_bytes() for path in modules},
    }


def _archive(files: Mapping[str, bytes | None]) -> Iterator[bytes]:
    """A cpio archive in the format "newc" (Linux: driver-api/early-userspace/buffer-format.rst)."""
    for number, (name, content) in enumerate([*files.items(), ("TRAILER!!!", b"")], 1):
        mode = 0o040755 if content is None else 0o100755
        data = content or b""
        path = name.encode() + b"\0"
        numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
        yield _padded(b"070701" + b"".join(b"%08X" % field for field in numbers) + path)
        yield _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
