"""Benchmarks for short nights: one job, one test of a second; or some of ``jube.yml``'s."""

from __future__ import annotations

from pathlib import Path

import yaml

from tests.lab.jube_job import NPC
from tests.paths import ROOT

#: One job on two nodes: TCP bandwidth.
TINY = f"""<jube>
    <parameterset name="tiny_param">
        <parameter name="client" mode="shell" separator=";;">printf %s "${{NPC_TINY_CLIENT:-}}"</parameter>
    </parameterset>
    <parameterset name="systemParameter" init_with="platform.xml">
        <parameter name="nodes" type="int">2</parameter>
        <parameter name="taskspernode" type="int">1</parameter>
        <parameter name="threadspertask" type="int">1</parameter>
        <parameter name="executable">{NPC.with_name("npb")}</parameter>
        <parameter name="args_exec" separator=";;">--servercmd qperf --clientcmd '$client' --parser qperf --killserver --timeout 60 --benchmark qperf --output launches</parameter>
    </parameterset>
    <benchmark name="tiny" outpath="runs">
        <step name="qperf">
            <use>tiny_param,systemParameter</use>
            <use from="platform.xml">executeset,executesub,jobfiles</use>
            <do done_file="$done_file" error_file="$error_file">$submit $submit_script</do>
        </step>
    </benchmark>
</jube>
"""  # noqa: E501
CLIENT = "qperf HOSTNAME -t 1 -uu -vu -m 64K tcp_bw"
#: One job on one node: LIKWID for a moment.
NODE = f"""<jube>
    <parameterset name="executeset" init_with="platform.xml">
        <parameter name="starter"></parameter>
        <parameter name="args_starter"></parameter>
    </parameterset>
    <parameterset name="systemParameter" init_with="platform.xml">
        <parameter name="nodes" type="int">1</parameter>
        <parameter name="taskspernode" type="int">1</parameter>
        <parameter name="threadspertask" type="int">1</parameter>
        <parameter name="measurement" separator=";;">{NPC} records sample --tool likwid --runs 2 --timeout 60 --output launches --</parameter>
        <parameter name="executable">likwid-bench</parameter>
        <parameter name="args_exec" separator=";;">-t load -w N:100kB:1 -i 10000</parameter>
    </parameterset>
    <benchmark name="node" outpath="runs">
        <step name="likwid">
            <use>executeset,systemParameter</use>
            <use from="platform.xml">executesub,jobfiles</use>
            <do done_file="$done_file" error_file="$error_file">$submit $submit_script</do>
        </step>
    </benchmark>
</jube>
"""  # noqa: E501


def some_steps(folder: Path, *names: str) -> Path:
    """A file with these steps of ``jube.yml`` alone, whatever their tags, in a folder that takes it for a
    checkout."""
    whole = yaml.safe_load((ROOT / "jube.yml").read_text(encoding="utf-8"))
    steps = [step for step in whole["step"] if step["name"] in names]
    for step in steps:
        del step["tag"]
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    (folder / ".venv").symlink_to(NPC.parents[1])
    file = folder / "some.yml"
    file.write_text(yaml.safe_dump({"name": "some", "outpath": "runs", "step": steps}), encoding="utf-8")
    return file
