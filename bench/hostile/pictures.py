"""Hostile pictures: huge ones in few bytes, chunks that unpack to more than the file, pages without end."""

import random
import struct
import zlib

from bench.hostile.sizes import size

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def huge_picture(generator: random.Random) -> tuple[str, bytes]:
    """Return a PNG of up to 2**31 pixels a side, of which few rows exist, if any."""
    width, height = (size(generator, 1, 2 ** generator.choice([8, 16, 31])) for _ in range(2))
    depth, colour = generator.choice([(1, 0), (8, 0), (16, 2), (8, 6), (4, 3), (7, 9)])
    rows = zlib.compress(bytes(min(width * 8 + 1, 2**22)) * generator.randint(0, 3), 1)
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, generator.randrange(2))
    return "Huge.png", SIGNATURE + _chunk(b"IHDR", head) + _chunk(b"IDAT", rows) + _chunk(b"IEND", b"")


def picture_bomb(generator: random.Random) -> tuple[str, bytes]:
    """Return a small PNG with compressed texts or a profile of up to 200 MB, or too many of its pixels."""
    packed = _zeros(size(generator, 2**16, 200 * 2**20))
    head = _chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 0, 0, 0, 0))
    bombs = {b"zTXt": b"a\0\0", b"iCCP": b"a\0\0", b"iTXt": b"a\0\1\0\0\0", b"IDAT": b""}
    kind = generator.choice(list(bombs))
    rest = b"" if kind == b"IDAT" else _chunk(b"IDAT", zlib.compress(bytes(65 * 64)))
    chunks = _chunk(kind, bombs[kind] + packed) * generator.randint(1, 3)
    return "Bomb.png", SIGNATURE + head + chunks + rest + _chunk(b"IEND", b"")


def tiff_pages(generator: random.Random) -> tuple[str, bytes]:
    """Return a TIFF with many pages, a page that follows itself, or sizes that are not true."""
    num_pages, data = size(generator, 1, 2000), bytearray(b"II*\0\x08\0\0\0")
    extremes = [1, 64, 65_535, 2**31, 2**32 - 1]
    for page in range(num_pages):
        width, height = (generator.choice(extremes) if generator.random() < 0.3 else 8 for _ in range(2))
        tags = [(256, width), (257, height), (258, 8), (259, generator.choice([1, 1, 5, 7, 8, 32773])), (262, 1)]
        tags += [(273, 8), (277, generator.choice([1, 1, 3, 65_535])), (278, height), (279, generator.choice(extremes))]
        following = len(data) + 2 + 12 * len(tags) + 4
        if page == num_pages - 1:
            following = generator.choice([0, 8, len(data), 2**32 - 1])
        data += struct.pack("<H", len(tags))
        data += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags) + struct.pack("<I", following)
    return "Pages.tiff", bytes(data)


def _zeros(count: int) -> bytes:
    packer = zlib.compressobj(1)
    block = bytes(2**16)
    return b"".join([*(packer.compress(block) for _ in range(count // len(block))), packer.flush()])


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
