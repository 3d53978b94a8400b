"""What the patterns of the benchmarks' specs stand for: readings of a metric, a case and a unit."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from npc.records.reading import Reading
from npc.records.record import Record

#: Units as the patterns name them → what one is in the metric's SI unit.
UNITS: Final = {
    "B/s": 1.0, "MB/s": 1e6, "MiB/s": 2.0**20, "bit/s": 0.125, "MFLOP/s": 1e6, "1/s": 1.0, "Mpps": 1e6,
    "GB/s": 1e9, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "GUP/s": 1e9,
    "Mbit/s": 125e3, "Mibit/s": 2.0**17, "ms": 1e-3,
    "s": 1.0, "us": 1e-6, "ns": 1e-9, "percent": 0.01, "": 1.0,
}  # fmt: skip


class Meaning(NamedTuple):
    """Which readings a pattern stands for, and how far rounding may part the two."""

    metric: str
    case: str = r".*"
    statistic: str | None = None
    rel: float = 1e-9
    direction: str | None = None
    level: str | None = None

    def of(self, measured: Reading | Record) -> bool:
        """Whether the pattern stands for this one."""
        return (
            measured.metric == self.metric
            and re.fullmatch(self.case, measured.case) is not None
            and measured.params.get("statistic") == self.statistic
            and self.direction in (None, measured.params.get("direction"))
            and self.level in (None, measured.params.get("level"))
        )


RDMA_VERBS: Final = ("write", "read", "send")


#: Patterns that stand for more than any usable reading of their unit's metric.
MEANINGS: Final = {
    "models_prtt": Meaning("time", "prtt"),
    "models_burst": Meaning("time", "burst"),
    "models_middleware": Meaning("time", "middleware"),
    "models_h_relation": Meaning("time", "h_relation"),
    "models_ring": Meaning("time", "ring_1"),
    "qperf_tcp_bw": Meaning("bandwidth", "tcp_bw"),
    "qperf_tcp_lat": Meaning("latency", "tcp_lat"),
    "qperf_udp_bw": Meaning("bandwidth", "udp_bw"),
    "qperf_udp_lat": Meaning("latency", "udp_lat"),
    **{
        f"qperf_{case}": Meaning("bandwidth" if case.endswith("_bw") else "latency", case)
        for case in (
            "rc_bw",
            "rc_rdma_write_bw",
            "rc_rdma_read_bw",
            "rc_lat",
            "rc_rdma_write_lat",
            "rc_rdma_read_lat",
            "ud_lat",
        )
    },
    # The parser takes the more exact one of the printed bandwidth and the printed message rate.
    **{f"perftest_{verb}_bw": Meaning("bandwidth", f"ib_{verb}_bw", rel=2e-2) for verb in RDMA_VERBS},
    **{f"perftest_{verb}_lat": Meaning("latency", f"ib_{verb}_lat") for verb in RDMA_VERBS},
    "perftest_atomic_rate": Meaning("message_rate", "ib_atomic_bw", rel=2e-2),
    "perftest_atomic_lat": Meaning("latency", "ib_atomic_lat"),
    "sockperf_latency": Meaning("latency", r".*(?:ping_pong|under_load)"),
    "sockperf_latency_p99": Meaning("latency", r".*(?:ping_pong|under_load)", "p99"),
    "sockperf_message_rate": Meaning("message_rate", ".*_throughput"),
    # sockperf multiplies the rate before it rounds it to whole messages.
    "sockperf_bandwidth": Meaning("bandwidth", ".*_throughput", rel=1e-3),
    "osu_latency": Meaning("latency", "osu_latency"),
    "osu_bw": Meaning("bandwidth", "osu_bw"),
    "osu_bibw": Meaning("bandwidth", "osu_bibw"),
    "osu_multi_lat": Meaning("latency", "osu_multi_lat"),
    "osu_allreduce": Meaning("latency", "osu_allreduce"),
    "osu_bcast": Meaning("latency", "osu_bcast"),
    "osu_alltoall": Meaning("latency", "osu_alltoall"),
    "osu_allgather": Meaning("latency", "osu_allgather"),
    "osu_barrier": Meaning("latency", "osu_barrier"),
    "osu_ibcast": Meaning("latency", "osu_ibcast"),
    "osu_put_latency": Meaning("latency", "osu_put_latency"),
    "osu_get_bw": Meaning("bandwidth", "osu_get_bw"),
    "osu_message_rate": Meaning("message_rate", "osu_mbw_mr"),
    "osu_init": Meaning("time", "osu_init"),
    "imb_pingpong_latency": Meaning("latency", "PingPong"),
    "imb_pingpong_bandwidth": Meaning("bandwidth", "PingPong"),
    "imb_sendrecv_bandwidth": Meaning("bandwidth", "Sendrecv"),
    "imb_uniband_bandwidth": Meaning("bandwidth", "Uniband"),
    "imb_alltoall_latency": Meaning("latency", "Alltoall"),
    "imb_barrier_latency": Meaning("latency", "Barrier"),
    "netpipe_bandwidth": Meaning("bandwidth"),
    "netpipe_latency": Meaning("latency"),
    "nuttcp_bandwidth": Meaning("bandwidth"),
    "nuttcp_retransmits": Meaning("retransmits"),
    # nuttcp rounds the share to the fifth digit; the parser counts the packets
    "nuttcp_lost_percent": Meaning("loss", rel=1e-5),
    "stream_copy": Meaning("bandwidth", "copy"),
    "stream_scale": Meaning("bandwidth", "scale"),
    "stream_add": Meaning("bandwidth", "add"),
    "stream_triad": Meaning("bandwidth", "triad"),
    "likwid_load": Meaning("bandwidth", r"load(_\w+)?"),
    **{f"memory_{level.lower()}": Meaning("latency", level=level) for level in ("L1", "L2", "L3", "MEM")},
    "likwid_flops": Meaning("flops"),
    "iperf3_bandwidth": Meaning("bandwidth"),
    "iperf3_back_bandwidth": Meaning("bandwidth", direction="bidir_reverse"),
    "iperf3_retransmits": Meaning("retransmits"),
    "iperf3_lost_percent": Meaning("loss"),
    "iperf3_jitter": Meaning("jitter"),
    "patterns_b_eff": Meaning("bandwidth", "b_eff"),
    "patterns_message_rate": Meaning("message_rate", "multirate"),
    "patterns_idle_latency": Meaning("latency", "pingpong"),
    "patterns_loaded_latency": Meaning("latency", "pingpong"),
    "gpu_triad": Meaning("bandwidth", "triad"),
    "gpu_down": Meaning("bandwidth", "to_gpu"),
    "gpu_up": Meaning("bandwidth", "to_host"),
    "nvbandwidth_down": Meaning("bandwidth", "host_to_device_memcpy_ce"),
    "nvbandwidth_up": Meaning("bandwidth", "device_to_host_memcpy_ce"),
    "nccl_bus": Meaning("bandwidth"),
    "blas_dgemm": Meaning("flops", "dgemm"),
    "blas_zgemm": Meaning("flops", "zgemm"),
    "fio_write": Meaning("bandwidth", "write"),
    "fio_read": Meaning("bandwidth", "read"),
    "fio_buffered_write": Meaning("bandwidth", "write"),
    "fio_randread": Meaning("operation_rate", "randread"),
    "fio_randwrite": Meaning("operation_rate", "randwrite"),
    "fio_filecreate": Meaning("operation_rate", "filecreate"),
    "ior_write": Meaning("bandwidth", "write"),
    "ior_read": Meaning("bandwidth", "read"),
    "mdtest_create": Meaning("operation_rate", "file creation"),
    "mdtest_stat": Meaning("operation_rate", "file stat"),
    "mdtest_remove": Meaning("operation_rate", "file removal"),
    "fft_1d": Meaning("flops", "fft_1d"),
    "fft_3d": Meaning("flops", "fft_3d"),
    "noise_detour": Meaning("detour", "detour"),
    "noise_delay": Meaning("detour", "fwq"),
    "hpcg_rating": Meaning("flops", "HPCG"),
    "himeno_flops": Meaning("flops"),
    "hpcc_hpl": Meaning("flops", "HPL"),
    "hpcc_dgemm": Meaning("flops", "StarDGEMM"),
    "hpcc_triad": Meaning("bandwidth", "StarSTREAM_Triad"),
    "hpcc_ptrans": Meaning("bandwidth", "PTRANS"),
    "hpcc_random_access": Meaning("update_rate", "MPIRandomAccess"),
    "hpcc_fft": Meaning("flops", "MPIFFT"),
    "hpcc_ring_bandwidth": Meaning("bandwidth", "RandomlyOrderedRing"),
    "hpcc_ring_latency": Meaning("latency", "RandomlyOrderedRing"),
}


#: What a pattern in this unit measures where nothing else is said.
METRICS_OF_UNITS: Final = {
    **dict.fromkeys(("B/s", "MB/s", "MiB/s", "bit/s"), "bandwidth"),
    **dict.fromkeys(("us", "ns"), "latency"),
    "s": "time", "MFLOP/s": "flops", "GFLOP/s": "flops",
    "1/s": "message_rate", "Mpps": "message_rate",
}  # fmt: skip


def meaning_of(name: str, unit: str) -> Meaning:
    """Which readings the pattern stands for."""
    return MEANINGS.get(name) or Meaning(METRICS_OF_UNITS[unit])
