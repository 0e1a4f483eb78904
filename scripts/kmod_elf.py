# SPDX-License-Identifier: GPL-2.0
"""Reads from kernel modules and objects what the checks need (ELF64, little endian)."""
import struct


class Elf:
    """Sections and symbols of one relocatable file."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path}: not a little-endian ELF64 file")
        shoff, = struct.unpack_from("<Q", self.data, 0x28)
        shentsize, shnum, shstrndx = struct.unpack_from("<HHH", self.data, 0x3A)
        self.sections = []
        for i in range(shnum):
            name, kind, _, _, off, size, link, info, _, _ = struct.unpack_from(
                "<IIQQQQIIQQ", self.data, shoff + i * shentsize)
            self.sections.append((name, kind, off, size, link, info))
        names = self.sections[shstrndx]
        self.names = [self._str(names[2] + s[0]) for s in self.sections]
        self.symbols = list(self._symbols())

    def _str(self, off):
        return self.data[off:self.data.index(b"\0", off)].decode()

    def _symbols(self):
        for _, kind, off, size, link, _ in self.sections:
            if kind != 2:       # SHT_SYMTAB
                continue
            strtab = self.sections[link][2]
            for o in range(off + 24, off + size, 24):
                name, info, _, shndx, value, _ = struct.unpack_from("<IBBHQQ", self.data, o)
                yield self._str(strtab + name), info >> 4, shndx, value

    def section(self, name):
        """The bytes of a section, None when there is no such section."""
        if name not in self.names:
            return None
        _, _, off, size, _, _ = self.sections[self.names.index(name)]
        return self.data[off:off + size]

    def pointers(self, name):
        """[(section, offset)] of what the addresses in a section of pointers are relocated to."""
        found = []
        for _, kind, off, size, link, target in self.sections:
            if kind != 4 or self.names[target] != name:     # SHT_RELA
                continue
            symtab = self.sections[link][2]
            for o in range(off, off + size, 24):
                _, info, addend = struct.unpack_from("<QQq", self.data, o)
                _, _, _, shndx, value, _ = struct.unpack_from("<IBBHQQ", self.data, symtab + 24 * (info >> 32))
                found.append((shndx, value + addend))
        return found

    def kunit_suites(self):
        """The names of the KUnit suites of a module, in its order: a suite begins with its name."""
        return [self._str(self.sections[shndx][2] + offset)
                for name in (".kunit_test_suites", ".kunit_init_test_suites") for shndx, offset in self.pointers(name)]

    def undefined(self):
        return {n for n, bind, shndx, _ in self.symbols if shndx == 0 and n and bind in (1, 2)}

    def exports(self):
        """{symbol: (GPL only, namespace)} of a linked module."""
        flags = self.section("__kflagstab")
        strings = self.section("__ksymtab_strings")
        found, gpl, ns = set(), {}, {}
        for name, _, shndx, value in self.symbols:
            if name.startswith("__ksymtab_") and shndx:
                found.add(name[len("__ksymtab_"):])
            elif name.startswith("__flags_"):
                gpl[name[len("__flags_"):]] = bool(flags[value] & 1)
            elif name.startswith("__kstrtabns_"):
                ns[name[len("__kstrtabns_"):]] = strings[value:strings.index(b"\0", value)].decode()
        return {n: (gpl[n], ns[n]) for n in found}

    def export_marks(self):
        """Symbols that an object, before linking, declares as exported."""
        return {n[len("__export_symbol_"):] for n, _, shndx, _ in self.symbols
                if n.startswith("__export_symbol_") and shndx}

    def modinfo(self):
        """[(key, value)] in the order of the file."""
        info = self.section(".modinfo") or b""
        return [tuple(e.decode().split("=", 1)) for e in info.split(b"\0") if b"=" in e]


def symvers(path):
    """{symbol: (module, GPL only, namespace)} of a Module.symvers."""
    table = {}
    with open(path) as f:
        for line in f:
            _, name, module, kind, ns = line.rstrip("\n").split("\t")
            table[name] = (module, kind == "EXPORT_SYMBOL_GPL", ns)
    return table


def parts(path):
    """{part: 'rust' or 'c'} of parts.mk."""
    table = {}
    with open(path) as f:
        for line in f:
            words = line.split()
            if len(words) == 3 and words[0].startswith("part-") and words[1] == ":=":
                table[words[0][len("part-"):]] = words[2]
    return table
