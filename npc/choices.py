"""Words that one chooses by: options of commands have them, and so have the settings of JUBE's files."""

from __future__ import annotations

from typing import Final

#: Parts of the benchmarks, by which jube.yml chooses them.
TAGS: Final = ("network", "memory", "compute", "io", "noise", "rdma", "apps", "models", "tools", "gpu")
#: In place of a number of launches: so many that the interval of the median is narrow enough.
AUTO: Final = "auto"
