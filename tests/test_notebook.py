"""docs/example.ipynb runs, and shows what it prints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.paths import ROOT

DOCS = ROOT / "docs"


def texts(notebook: Any) -> list[list[str]]:
    """What each cell printed or gave back, as text."""
    return [
        [output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.slow
def test_the_notebook_prints_what_it_shows() -> None:
    import nbformat  # not where quick tests are collected
    from nbclient import NotebookClient

    kept = nbformat.read(DOCS / "example.ipynb", as_version=4)
    again = nbformat.read(DOCS / "example.ipynb", as_version=4)
    for cell in again.cells:
        cell.outputs = []
    NotebookClient(
        again, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(DOCS)}}
    ).execute()
    assert texts(again) == texts(kept)
    assert sum(len(cell) > 0 for cell in texts(again)) >= 6
    outputs = [output for cell in again.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1
