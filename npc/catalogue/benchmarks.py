"""The rows: one a benchmark.

Where a ping-pong is chosen among several, MPI's own comes before others, and the upper row before the lower.
Seconds of a launch are medians of ``launches.jsonl`` of whole runs with default settings on a virtual machine
of two cores with a last-level cache of 32 MiB, where nothing else is said. Most tools run for a set time, so
they take as long elsewhere; those that do a set amount of work (HPCC, the start of Python's OSU) differ by
machine. Waiting for nodes is not in here.
"""

from __future__ import annotations

from typing import Final

from npc.catalogue.row import Benchmark, Step, Test

_PING_PONG: Final = "half round trip"
_WINDOWED: Final = "interval between messages"

BENCHMARKS: Final[tuple[Benchmark, ...]] = (
    Benchmark("osu", (
        Step(name="osu", tags=("network",), commands=("osu_latency", "mpirun"), jobs=2, launches=2,
             seconds=1.3, nodes=(2,), measures="MPI latency, bandwidth, collectives",
             sizes=(("osu_max_size", "1048576"),)),
    ), (
        Test("osu_latency", "latency", "mpi", _PING_PONG, "MPI half round trip", "send"),
        Test("osu_bw", "bandwidth", "mpi", _WINDOWED, "MPI bandwidth", "send"),
        Test("osu_bibw", "bandwidth", "mpi", quantity="MPI bandwidth both ways", both_ways=True),
        Test("osu_put_bw", "bandwidth", "mpi", _WINDOWED, "MPI put bandwidth"),
        Test("osu_get_bw", "bandwidth", "mpi", _WINDOWED, "MPI get bandwidth"),
        Test("osu_allreduce", "latency", "mpi", "collective", "MPI all-reduce", "allreduce"),
        Test("osu_bcast", "latency", "mpi", "collective", "MPI broadcast", "bcast"),
        Test("osu_alltoall", "latency", "mpi", "collective", "MPI all-to-all", "alltoall"),
        Test("osu_allgather", "latency", "mpi", "collective", "MPI all-gather", "allgather"),
        Test("osu_reduce", "latency", "mpi", "collective", "MPI reduce", "reduce"),
        Test("osu_barrier", "latency", "mpi", "collective", "MPI barrier", "barrier"),
        Test("*bibw*", layer="mpi", both_ways=True),
    ), layer="mpi"),
    Benchmark("imb", (
        Step(name="imb", tags=("tools",), commands=("IMB-MPI1", "mpirun"), site=("imb_prefix",), jobs=1,
             launches=4, seconds=1.5, nodes=(2,), measures="MPI by Intel's benchmarks",
             sizes=(("imb_msglog", "0:20, powers of two"),)),
    ), (
        Test("PingPong", "latency", "mpi", _PING_PONG, "MPI half round trip", "send"),
        Test("PingPong", "bandwidth", "mpi", _PING_PONG, counted=1),
        Test("PingP[io]ng*Source", "bandwidth", "mpi", counted=1),
        Test("PingPing", "bandwidth", "mpi", counted=1),
        Test("Uniband", "bandwidth", "mpi", _WINDOWED, "MPI bandwidth", "send"),
        Test("Biband", "bandwidth", "mpi", quantity="MPI bandwidth both ways", both_ways=True),
        Test("Sendrecv", "bandwidth", "mpi", both_ways=True, counted=2),
        Test("Exchange", "bandwidth", "mpi", both_ways=True, counted=4),
        Test("Allreduce", "latency", "mpi", "collective", "MPI all-reduce", "allreduce"),
        Test("Bcast", "latency", "mpi", "collective", "MPI broadcast", "bcast"),
        Test("Alltoall", "latency", "mpi", "collective", "MPI all-to-all", "alltoall"),
        Test("Allgather", "latency", "mpi", "collective", "MPI all-gather", "allgather"),
        Test("Reduce", "latency", "mpi", "collective", "MPI reduce", "reduce"),
        Test("Barrier", "latency", "mpi", "collective", "MPI barrier", "barrier"),
        Test("*Sendrecv*", layer="mpi", both_ways=True),
        Test("*Exchange*", layer="mpi", both_ways=True),
        Test("*Biband*", layer="mpi", both_ways=True),
    ), layer="mpi"),
    Benchmark("netpipe", (
        Step(name="netpipe", tags=("tools",), commands=("mpirun",), jobs=1, launches=1, seconds=1.5,
             nodes=(2,), measures="a ping-pong over many sizes", sizes=(("netpipe_max_size", "1048576"),)),
    ), (
        Test("pingpong", "latency", "mpi", _PING_PONG, "MPI half round trip", "send"),
        Test("pingpong", "bandwidth", "mpi", _PING_PONG),
        Test("bidirectional", layer="mpi", both_ways=True),
    ), layer="mpi"),
    Benchmark("models", (
        Step(name="models", tags=("models",), commands=("mpirun",), jobs=1, launches=5, seconds=1.2,
             nodes=(2,), measures="what LogGP, LogfP, log_3P, BSP and τ-Lop are made of",
             sizes=(("models_max_size", "1048576"),)),
    ), (
        Test("*", "time", "mpi", "pattern"),
    )),
    Benchmark("patterns", (
        Step(name="patterns", tags=("apps",), commands=("mpirun",), jobs=3, launches=4, seconds=3.0,
             nodes=(2,), measures="rings, message rate, ping-pong under load", scales="patterns_nodes",
             sizes=(("patterns_sizes", "8,1024,16384"), ("patterns_load_size", "262144"),
                    ("patterns_max_size", "1048576"))),
    ), (
        Test("rings", layer="mpi", both_ways=True, all_processes=True),
        Test("b_eff", layer="mpi", both_ways=True, all_processes=True),
    ), layer="mpi"),
    Benchmark("perftest", (
        # -a -n 1000 moves 17 GB in 23 sizes: 1.4 s on 4x EDR, and as much again to set up
        Step(name="perftest", tags=("rdma",), commands=("ib_write_bw", "mpirun"), jobs=2, launches=8,
             seconds=3.0, nodes=(2,), measures="RDMA bandwidth, latency, atomics",
             sizes=(("perftest_sizes", "-a, 2 to 8M"),)),
    ), (
        Test("ib_send_lat", "latency", "rdma", _PING_PONG, "RDMA send half round trip"),
        Test("ib_write_lat", "latency", "rdma", _PING_PONG, "RDMA write half round trip"),
        Test("ib_send_bw", "bandwidth", "rdma", _WINDOWED, "RDMA send bandwidth", sender="client"),
        Test("ib_write_bw", "bandwidth", "rdma", _WINDOWED, "RDMA write bandwidth", sender="client"),
        Test("ib_read_bw", "bandwidth", "rdma", _WINDOWED, "RDMA read bandwidth", sender="server"),
    ), layer="rdma"),
    Benchmark("qperf", (
        Step(name="qperf", tags=("network",), commands=("qperf", "mpirun"), jobs=3, launches=2, swept=4,
             seconds=2.0, nodes=(2,), measures="TCP and UDP bandwidth and latency, TCP over the size",
             sizes=(("qperf_bandwidth_sizes", "60K"), ("qperf_latency_sizes", "1"),
                    ("qperf_sweep_sizes", "16,256,4K,32K"))),
        Step(name="qperf over RDMA", tags=("rdma",), commands=("qperf", "mpirun"), jobs=3, launches=12,
             swept=8, seconds=1.0, nodes=(2,), measures="RDMA bandwidth and latency",
             sizes=(("qperf_rdma_bandwidth_sizes", "64K,1M"), ("qperf_rdma_latency_sizes", "1,4K"),
                    ("qperf_sweep_sizes", "16,256,4K,32K"))),
    ), (
        Test("tcp_lat", "latency", "tcp", _PING_PONG, "TCP half round trip"),
        Test("tcp_bw", "bandwidth", "tcp", _WINDOWED, "TCP bandwidth", sender="client"),
        Test("udp_lat", "latency", "udp", _PING_PONG, "UDP half round trip", lossy=True),
        Test("udp_bw", "bandwidth", "udp", _WINDOWED, "UDP bandwidth", lossy=True, sender="client"),
        Test("sctp_lat", "latency", "sctp", _PING_PONG, "SCTP half round trip"),
        Test("sctp_bw", "bandwidth", "sctp", _WINDOWED, "SCTP bandwidth", sender="client"),
        Test("sdp_lat", "latency", "sdp", _PING_PONG, "SDP half round trip"),
        Test("sdp_bw", "bandwidth", "sdp", _WINDOWED, "SDP bandwidth", sender="client"),
        Test("rds_lat", "latency", "rds", _PING_PONG, "RDS half round trip"),
        Test("rds_bw", "bandwidth", "rds", _WINDOWED, "RDS bandwidth", sender="client"),
        Test("rc_lat", "latency", "rdma", _PING_PONG, "RDMA send half round trip"),
        Test("xrc_lat", "latency", "rdma", _PING_PONG, "RDMA send half round trip XRC"),
        Test("rc_rdma_write_lat", "latency", "rdma", _PING_PONG, "RDMA write half round trip"),
        Test("rc_bw", "bandwidth", "rdma", _WINDOWED, "RDMA send bandwidth", sender="client"),
        Test("xrc_bw", "bandwidth", "rdma", _WINDOWED, "RDMA send bandwidth XRC", sender="client"),
        Test("rc_rdma_write_bw", "bandwidth", "rdma", _WINDOWED, "RDMA write bandwidth", sender="client"),
        Test("rc_rdma_read_bw", "bandwidth", "rdma", _WINDOWED, "RDMA read bandwidth", sender="server"),
        Test("uc_lat", "latency", "rdma", _PING_PONG, "RDMA send half round trip UC", lossy=True),
        Test("uc_rdma_write_lat", "latency", "rdma", _PING_PONG, "RDMA write half round trip UC", lossy=True),
        Test("uc_bw", "bandwidth", "rdma", _WINDOWED, "RDMA send bandwidth UC", lossy=True, sender="client"),
        Test("uc_rdma_write_bw", "bandwidth", "rdma", _WINDOWED, "RDMA write bandwidth UC", lossy=True,
             sender="client"),
        Test("ud_lat", "latency", "rdma", _PING_PONG, "RDMA send half round trip UD", lossy=True),
        Test("ud_bw", "bandwidth", "rdma", _WINDOWED, "RDMA send bandwidth UD", lossy=True, sender="client"),
        Test("rc_bi_bw", layer="rdma", both_ways=True),
        Test("u[cd]_bi_bw", layer="rdma", both_ways=True, lossy=True),
        Test("u[cd]_*", layer="rdma", lossy=True),
        Test("tcp*", layer="tcp"),
        Test("udp*", layer="udp", lossy=True),
    ), layer="rdma"),
    Benchmark("sockperf", (
        Step(name="sockperf", tags=("network",), commands=("sockperf", "mpirun"), jobs=1, launches=1,
             seconds=1.3, nodes=(2,), measures="TCP latency with percentiles",
             sizes=(("sockperf_latency_sizes", "14"), ("sockperf_throughput_sizes", "32K, if asked for"))),
    ), (
        Test("tcp_ping_pong", "latency", "tcp", _PING_PONG, "TCP half round trip"),
        Test("udp_ping_pong", "latency", "udp", _PING_PONG, "UDP half round trip", lossy=True),
        Test("tcp_throughput", "bandwidth", "tcp", "stream", "TCP bandwidth", sender="client"),
        Test("udp_throughput", "bandwidth", "udp", "stream", "UDP bandwidth as sent", lossy=True,
             sender="client"),
        Test("tcp*", layer="tcp"),
        Test("*", layer="udp", lossy=True),
    )),
    Benchmark("iperf3", (
        Step(name="iperf3", tags=("network",), commands=("iperf3", "mpirun"), jobs=1, launches=1, seconds=1.0,
             nodes=(2,), measures="TCP goodput as received"),
    ), (
        Test("tcp*", "bandwidth", "tcp", "stream", "TCP bandwidth", sender="client"),
        Test("udp*", "bandwidth", "udp", "stream", "UDP bandwidth", lossy=True, sender="client"),
        Test("sctp", "bandwidth", "sctp", "stream", "SCTP bandwidth", sender="client"),
        Test("udp*", layer="udp", lossy=True),
    ), layer="tcp"),
    Benchmark("nuttcp", (
        Step(name="nuttcp", tags=("tools",), commands=("nuttcp", "mpirun"), jobs=2, launches=3, seconds=1.2,
             nodes=(2,), measures="TCP and UDP throughput, loss",
             sizes=(("nuttcp_tcp_sizes", "4K,64K"), ("nuttcp_udp_sizes", "1400"))),
    ), (
        Test("tcp*", "bandwidth", "tcp", "stream", "TCP bandwidth", sender="client"),
        Test("udp*", "bandwidth", "udp", "stream", "UDP bandwidth", lossy=True, sender="client"),
        Test("udp*", layer="udp", lossy=True),
    ), layer="tcp"),
    Benchmark("stream", (
        Step(name="stream", tags=("memory",), commands=("cc",), jobs=1, launches=1, seconds=0.8, nodes=(1,),
             measures="memory bandwidth of a node", caches=1.0,
             sizes=(("stream_array_size", "4 × last-level caches"),)),
    ), (
        Test("*", "bandwidth", "memory", quantity="STREAM", level="MEM"),
    )),
    Benchmark("memory", (
        # the mean of its parts; two touch the largest working set, 1 GiB in 0.7 s
        Step(name="memory", tags=("memory",), commands=("cc",), jobs=1, launches=5, seconds=0.3, nodes=(1,),
             measures="memory latency, idle, loaded, between cores",
             sizes=(("memory_max_size", "4 × last-level cache"),)),
    ), (
        Test("load", "latency", "memory", quantity="memory latency"),
        Test("numa", "latency", "memory", quantity="memory latency between NUMA nodes"),
        Test("loaded", "latency", "memory", quantity="loaded memory latency"),
        Test("loaded", "bandwidth", "memory", quantity="streams beside loads", level="MEM"),
        Test("core_to_core", "latency", "memory", quantity="core-to-core latency"),
        Test("sharing", "latency", "memory", quantity="increment by two threads"),
        Test("align", "latency", "memory", quantity="latency of a load by its alignment"),
        Test("stride", "bandwidth", "memory", quantity="strided access"),
        Test("touch", "bandwidth", "memory", quantity="bandwidth by first touch", level="MEM"),
        Test("product", "time", "memory", quantity="plain matrix product"),
        Test("clock", "clock"),
    )),
    Benchmark("likwid", (
        Step(name="likwid", tags=("compute", "memory"), commands=("likwid-bench",), jobs=1, launches=6,
             seconds=0.5, nodes=(1,), measures="peak FLOP/s, bandwidth of caches and memory"),
    ), (
        Test("peakflops*", "flops", "compute", quantity="peak"),
        Test("peakflops*"),
        Test("*", "bandwidth", "memory", quantity="memory level"),
    )),
    Benchmark("blas", (
        # two libraries, with one thread and with all; a launch does 3 GFLOP a thread, and more with its root
        Step(name="blas", tags=("compute",), commands=("cc",), jobs=1, launches=4, seconds=0.4, nodes=(1,),
             measures="matrix products by every BLAS", sizes=(("blas_sizes", "256, 768 × √threads"),)),
    ), (
        Test("dgemm", "flops", "compute", quantity="dgemm"),
        Test("zgemm", "flops", "compute", quantity="zgemm"),
    )),
    Benchmark("fft", (
        Step(name="fft", tags=("compute",), commands=("cc",), jobs=1, launches=2, seconds=0.6, nodes=(1,),
             measures="complex transforms by FFTW", sizes=(("fft_sizes", "1d:4096,3d:64,3d:64:in"),)),
    ), (
        Test("fft_1d", "flops", "compute", quantity="FFT in one dimension"),
        Test("fft_3d", "flops", "compute", quantity="FFT in three dimensions"),
    )),
    Benchmark("fio", (
        # a launch has eight tests, of 0.2 s at most and 0.1 s to start; fio starts twice
        Step(name="fio", tags=("io",), commands=("fio",), jobs=1, launches=1, seconds=2.9, nodes=(1,),
             measures="file system: data, random access, names", scales="fio_nodes",
             sizes=(("fio_sizes", "1M"), ("fio_random_sizes", "4K"))),
    ), (
        Test("read", "bandwidth", "io", quantity="file read"),
        Test("write", "bandwidth", "io", quantity="file write"),
        Test("randread", "operation_rate", "io", quantity="random file read"),
        Test("randwrite", "operation_rate", "io", quantity="random file write"),
        Test("filecreate", "operation_rate", "io", quantity="file creation"),
        Test("filestat", "operation_rate", "io", quantity="file stat"),
        Test("filedelete", "operation_rate", "io", quantity="file deletion"),
    ), layer="io"),
    Benchmark("ior", (
        # by its bytes: 8 GB in all, of two nodes at 1 GB/s together
        Step(name="ior", tags=("tools",), commands=("ior", "mpirun"), site=("ior_prefix",), jobs=1,
             launches=2, seconds=2.0, nodes=(2,), measures="file system: data of many nodes at once",
             scales="ior_nodes"),
    ), (
        Test("write", "bandwidth", "io", quantity="file write of many nodes"),
        Test("read", "bandwidth", "io", quantity="file read of many nodes"),
    ), layer="io"),
    Benchmark("mdtest", (
        Step(name="mdtest", tags=("tools",), commands=("mdtest", "mpirun"), site=("mdtest_prefix",), jobs=1,
             launches=2, seconds=3.0, nodes=(2,), measures="file system: names of many nodes at once",
             scales="mdtest_nodes"),
    ), (
        Test("file creation", "operation_rate", "io", quantity="file creation of many nodes"),
        Test("file stat", "operation_rate", "io", quantity="file stat of many nodes"),
        Test("file removal", "operation_rate", "io", quantity="file deletion of many nodes"),
    ), layer="io"),
    Benchmark("noise", (
        Step(name="noise", tags=("noise",), commands=("cc",), jobs=1, launches=1, seconds=1.2, nodes=(1,),
             measures="OS noise of every core"),
    ), (
        Test("detour", layer="noise", quantity="detours of the operating system"),
        Test("fwq", layer="noise", quantity="delays of fixed work"),
    ), layer="noise"),
    Benchmark("gpu", (
        # the mean of its parts, of one GPU
        Step(name="gpu", tags=("gpu",), commands=("nvcc",), jobs=1, launches=4, seconds=1.7, nodes=(1,),
             measures="GPUs: memory, L2, link to the host, matrix products"),
    ), (
        Test("load", "bandwidth", "gpu", quantity="GPU memory level"),
        Test("copy", "bandwidth", "gpu", quantity="GPU STREAM"),
        Test("scale", "bandwidth", "gpu", quantity="GPU STREAM"),
        Test("add", "bandwidth", "gpu", quantity="GPU STREAM"),
        Test("triad", "bandwidth", "gpu", quantity="GPU STREAM"),
        Test("to_gpu", "bandwidth", "gpu", quantity="host to GPU"),
        Test("to_host", "bandwidth", "gpu", quantity="GPU to host"),
        Test("host_both", "bandwidth", "gpu", quantity="host and GPU both ways", both_ways=True),
        Test("to_gpu", "latency", "gpu", quantity="latency of a copy to the GPU"),
        Test("to_host", "latency", "gpu", quantity="latency of a copy to the host"),
        Test("launch*", "latency", "gpu", quantity="start of a kernel"),
        Test("gemm", "flops", "gpu", quantity="GPU matrix product"),
        Test("peer", "bandwidth", "gpu", quantity="GPU to GPU"),
        Test("peer_both", "bandwidth", "gpu", quantity="GPUs both ways", both_ways=True),
    ), layer="gpu"),
    Benchmark("babelstream", (
        # as long as its start and the check of its arrays by one core
        Step(name="babelstream", tags=("gpu",), commands=("cuda-stream",), site=("babelstream_command",),
             jobs=1, launches=1, seconds=3.0, nodes=(1,), measures="GPUs: memory, by BabelStream"),
    ), (
        Test("*", "bandwidth", "gpu", quantity="BabelStream"),
    ), layer="gpu"),
    Benchmark("nvbandwidth", (
        # three trials of 16 copies of each pair, of one GPU
        Step(name="nvbandwidth", tags=("gpu",), commands=("nvbandwidth",), site=("nvbandwidth_command",),
             jobs=1, launches=5, seconds=2.0, nodes=(1,),
             measures="GPUs: copies from and to the host and among them"),
    ), (
        Test("host_to_device_memcpy_*", "bandwidth", "gpu", quantity="host to GPU"),
        Test("device_to_host_memcpy_*", "bandwidth", "gpu", quantity="GPU to host"),
        Test("device_to_device_memcpy_*", "bandwidth", "gpu", quantity="GPU to GPU"),
        Test("*bidirectional*", layer="gpu", both_ways=True),
    ), layer="gpu"),
    Benchmark("nccl", (
        # by its sizes, of two GPUs
        Step(name="nccl", tags=("gpu",), commands=("all_reduce_perf",), site=("nccl_prefix",), jobs=1,
             launches=5, seconds=4.0, nodes=(1,), measures="collectives among GPUs",
             sizes=(("nccl_min_size", "1K"), ("nccl_max_size", "1G"))),
    ), (
        Test("all_reduce_perf", "latency", "gpu", quantity="GPU all-reduce"),
        Test("all_gather_perf", "latency", "gpu", quantity="GPU all-gather"),
        Test("reduce_scatter_perf", "latency", "gpu", quantity="GPU reduce-scatter"),
        Test("alltoall_perf", "latency", "gpu", quantity="GPU all-to-all"),
        Test("sendrecv_perf", "latency", "gpu", quantity="GPU send and receive"),
    ), layer="gpu"),
    Benchmark("hpcc", (
        # its N grows with the caches of all nodes, its work with N³
        Step(name="hpcc", tags=("apps",), commands=("hpcc", "mpirun"), jobs=1, launches=1, seconds=60.0,
             nodes=(1,), measures="HPC Challenge", scales="hpcc_nodes", growth=0.5,
             sizes=(("hpcc_n", "by the last-level caches"),)),
    ), (
        Test("StarDGEMM", "flops", "compute", quantity="DGEMM"),
        Test("HPL", "flops", "compute", quantity="HPL"),
        Test("*STREAM*", "bandwidth", "memory", level="MEM"),
        Test("PingPong", layer="mpi", all_processes=True),
        Test("*OrderedRing", layer="mpi", both_ways=True, all_processes=True),
    )),
    Benchmark("himeno", (
        # a job for one process, for 2, 4, … all cores
        Step(name="himeno", tags=("apps",), commands=("mpicc", "mpirun"), jobs=2, launches=2, seconds=6.2,
             nodes=(1,), measures="a stencil over MPI", scales="himeno_nodes", sizes=(("himeno_size", "M"),)),
    )),
    Benchmark("hpcg", (
        Step(name="hpcg", tags=("apps",), commands=("xhpcg", "mpirun"), site=("hpcg_prefix", "hpcg_source"),
             jobs=1, launches=1, seconds=60.0, nodes=(1,), measures="conjugate gradients",
             scales="hpcg_nodes", sizes=(("hpcg_size", "104"),)),
    ), (
        Test("*", "bandwidth", "memory", level="MEM"),
    )),
)  # fmt: skip
