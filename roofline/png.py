"""PNG files (ISO/IEC 15948) of line art: 8-bit RGB, without row filters.

Areas of one colour, which a drawing is made of, deflate best as they are. Pillow tries all five filters on
every row instead, which takes four times as long and makes a larger file.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: zlib's level: its usual one takes more than twice as long for a twentieth of the bytes.
_LEVEL: Final = 3
_INCH: Final = 0.0254


def write_png(pixels: NDArray[np.uint8], dots_per_inch: float, path: Path) -> None:
    """Write opaque `pixels` (rows × columns × at least red, green and blue) to `path`. Raises OSError."""
    import numpy as np

    height, width = pixels.shape[:2]
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # a row begins with its filter: 0, none
    for channel in range(3):
        rows[:, 1 + channel :: 3] = pixels[:, :, channel]
    dots_per_metre = round(dots_per_inch / _INCH)
    with path.open("wb") as stream:
        stream.write(_SIGNATURE)
        for kind, data in (
            (b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)),
            (b"pHYs", struct.pack(">2IB", dots_per_metre, dots_per_metre, 1)),
            (b"IDAT", zlib.compress(rows.data, _LEVEL)),
            (b"IEND", b""),
        ):
            stream.write(struct.pack(">I", len(data)) + kind + data)
            stream.write(struct.pack(">I", zlib.crc32(kind + data)))
