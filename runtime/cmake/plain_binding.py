"""plain_binding.py FILE: turns every STB_GNU_UNIQUE symbol of a 64-bit little-endian ELF object into a global one, in place.

The C++ library's template statics are "unique"; objcopy will not make such a symbol local, so they would stay visible in libgdn.a and clash with the
same library linked statically into a program.
"""
import struct
import sys

SHT_SYMTAB, STB_GLOBAL, STB_GNU_UNIQUE = 2, 1, 10

with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
    (headers,) = struct.unpack_from("<Q", data, 0x28)
    header_size, header_count = struct.unpack_from("<HH", data, 0x3A)
    if header_count == 0:  # more than 65,279 sections: the count stands in section 0
        (header_count,) = struct.unpack_from("<Q", data, headers + 0x20)
    for i in range(header_count):
        header = headers + i * header_size
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", data, header)
        if kind != SHT_SYMTAB:
            continue
        for symbol in range(offset, offset + size, 24):
            if data[symbol + 4] >> 4 == STB_GNU_UNIQUE:
                data[symbol + 4] = STB_GLOBAL << 4 | data[symbol + 4] & 15
    file.seek(0)
    file.write(data)
