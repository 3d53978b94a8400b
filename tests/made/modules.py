"""Python packages that must not be imported, as a module of a cluster may bring them by ``PYTHONPATH``."""

from __future__ import annotations

from pathlib import Path


def plant(folder: Path, *names: str) -> Path:
    """Make `folder` with packages of these names, each of which fails when it is imported; returns it."""
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('planted {name}')\n", encoding="utf-8")
    return folder
