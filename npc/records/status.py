"""The status of a reading and of a record: `OK`, or why the value must not be used."""

from __future__ import annotations

from typing import Final

OK: Final = "ok"
