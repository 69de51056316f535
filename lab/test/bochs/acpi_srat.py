# SPDX-License-Identifier: GPL-2.0-only
"""Writes the two ACPI tables that describe NUMA nodes, for a machine whose firmware has none.

SRAT has the node of each processor and of each piece of memory; SLIT has the distances of the nodes. A kernel with
ACPI_TABLE_UPGRADE takes both tables from the initial file system (kernel/firmware/acpi/).
"""
import struct

HEADER = struct.Struct("<4sIBB6s8sI4sI")     # signature, length, revision, checksum, maker, table, revision, tool, revision
CPU = struct.Struct("<BBBBIB3sI")            # type, length, node 7:0, APIC id, flags, SAPIC id, node 31:8, clock domain
MEMORY = struct.Struct("<BBIHQQIIQ")         # type, length, node, -, start, size, -, flags, -
ENABLED = 1
NEAR, FAR = 10, 20


def table(signature, revision, body):
    """The table with header; the sum of all bytes is zero."""
    header = HEADER.pack(signature, HEADER.size + len(body), revision, 0, b"HYDRA ", b"HYDRALAB", 1, b"HYDR", 1)
    whole = bytearray(header + body)
    whole[9] = -sum(whole) % 256
    return bytes(whole)


def cpu(apic_id, node):
    if not 0 <= apic_id < 255:
        raise ValueError(f"APIC id {apic_id}: this kind of entry has one byte for it")
    return CPU.pack(0, CPU.size, node & 0xff, apic_id, ENABLED, 0, (node >> 8).to_bytes(3, "little"), 0)


def memory(start, size, node):
    return MEMORY.pack(1, MEMORY.size, node, 0, start, size, 0, ENABLED, 0)


def srat(cpus, memories):
    """cpus: the node of each APIC id, from 0; memories: (start, size, node) in bytes."""
    entries = [cpu(apic_id, node) for apic_id, node in enumerate(cpus)]
    entries += [memory(*piece) for piece in memories]
    return table(b"SRAT", 3, struct.pack("<IQ", 1, 0) + b"".join(entries))


def slit(nodes):
    """Every node as far from every other."""
    distances = bytes(NEAR if here == there else FAR for here in range(nodes) for there in range(nodes))
    return table(b"SLIT", 1, struct.pack("<Q", nodes) + distances)


def even(nodes, cpus_per_node, megabytes_per_node):
    """Both tables of a machine with equal nodes, by the names that the kernel expects."""
    size = megabytes_per_node << 20
    cpus = [node for node in range(nodes) for _ in range(cpus_per_node)]
    return {"srat.aml": srat(cpus, [(node * size, size, node) for node in range(nodes)]), "slit.aml": slit(nodes)}
