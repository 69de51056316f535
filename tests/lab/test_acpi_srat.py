# SPDX-License-Identifier: GPL-2.0-only
"""The ACPI tables for NUMA: read back by the layout of the specification, field by field."""
import pytest

from lab.test.bochs import acpi_srat


def number(data, at, size):
    return int.from_bytes(data[at:at + size], "little")


def check_header(table, signature):
    assert table[:4] == signature
    assert number(table, 4, 4) == len(table)
    assert sum(table) % 256 == 0


def entries(table):
    """The entries of an SRAT, which begin after 48 bytes."""
    at = 48
    while at < len(table):
        yield table[at], table[at:at + table[at + 1]]
        at += table[at + 1]


def test_processors_and_memory_are_where_they_should_be():
    table = acpi_srat.srat([0, 0, 1, 300], [(0, 0x1000_0000, 0), (0x1_0000_0000, 0x2_0000_0000, 300)])
    check_header(table, b"SRAT")
    found = list(entries(table))
    cpus = [entry for kind, entry in found if kind == 0]
    memories = [entry for kind, entry in found if kind == 1]
    assert [len(entry) for entry in cpus] == [16] * 4 and [len(entry) for entry in memories] == [40] * 2
    assert [(entry[3], entry[2] | number(entry, 9, 3) << 8, number(entry, 4, 4)) for entry in cpus] == [
        (0, 0, 1), (1, 0, 1), (2, 1, 1), (3, 300, 1)]
    assert [(number(entry, 2, 4), number(entry, 8, 8), number(entry, 16, 8), number(entry, 28, 4)) for entry in memories] == [
        (0, 0, 0x1000_0000, 1), (300, 0x1_0000_0000, 0x2_0000_0000, 1)]


def test_distances():
    table = acpi_srat.slit(3)
    check_header(table, b"SLIT")
    assert number(table, 36, 8) == 3
    assert list(table[44:]) == [10, 20, 20, 20, 10, 20, 20, 20, 10]


def test_a_changed_byte_is_seen_by_the_checksum():
    table = bytearray(acpi_srat.slit(2))
    table[-1] ^= 1
    assert sum(table) % 256 != 0


def test_nodes_alike():
    tables = acpi_srat.even(4, 2, 256)
    cpus = [entry for kind, entry in entries(tables["srat.aml"]) if kind == 0]
    memories = [entry for kind, entry in entries(tables["srat.aml"]) if kind == 1]
    assert [entry[2] for entry in cpus] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [(number(entry, 8, 8) >> 20, number(entry, 16, 8) >> 20) for entry in memories] == [
        (0, 256), (256, 256), (512, 256), (768, 256)]
    assert number(tables["slit.aml"], 36, 8) == 4


def test_an_apic_id_that_does_not_fit():
    with pytest.raises(ValueError, match="255"):
        acpi_srat.cpu(255, 0)
