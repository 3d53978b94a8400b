"""A JUBE specification as other people write them: it knows nothing of NPC."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.lab.jube_job import finish

SITE: Final = """<?xml version="1.0" encoding="UTF-8"?>
<jube><benchmark name="site" outpath="runs">
  <parameterset name="compile_param"><parameter name="modules">GCC</parameter></parameterset>
  <parameterset name="execute_param">
    <parameter name="npc_platform_name">their-site</parameter>
    <parameter name="threads" type="int">1,2</parameter>
    <parameter name="scratch">IOR_$jube_wp_padid</parameter>
    MORE
  </parameterset>
  <step name="compile"><use>compile_param</use><do>echo built</do></step>
  <step name="execute" depend="compile" iterations="2" suffix="of_theirs">
    <use>execute_param</use><do>EXECUTE</do>
  </step>
  <analyser name="times"><analyse step="execute"><file>table.$threads</file></analyse></analyser>
</benchmark></jube>
"""
#: A parameter that the step before has with another value: JUBE then makes no workpackage.
CLASH: Final = '<parameter name="modules">OpenMPI</parameter>'


def site_benchmark(folder: Path, execute: str, more: str = "") -> Path:
    """Run a specification that compiles and then does `execute` in four workpackages; the run's folder. more:
    further parameters of this step."""
    escaped = execute.replace("&", "&amp;").replace(">", "&gt;")
    (folder / "site.xml").write_text(SITE.replace("EXECUTE", escaped).replace("MORE", more))
    ended = finish("jube", "run", folder / "site.xml", "--hide-animation")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "runs/000000"
