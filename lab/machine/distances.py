# SPDX-License-Identifier: GPL-2.0-only
"""The distances between nodes, as the machine's firmware tells the kernel (SLIT): what --distance and --distances mean."""
from lab.errors import LabError

LOCAL, LARGEST = 10, 254     # of a node to itself; 255 means that there is no way


def refuse(option, text, why):
    raise LabError(f"{option} {text}: {why}", "Write the rows one after the other, e.g. for two nodes  --distances 10,21,21,10", status=2)


def same(value, nodes):
    """All other nodes equally far: rows, as of table()."""
    if not LOCAL < value <= LARGEST:
        refuse("--distance", value, f"must be {LOCAL + 1} to {LARGEST}; {LOCAL} is the distance of a node to itself")
    return tuple(tuple(LOCAL if here == there else value for there in range(nodes)) for here in range(nodes))


def table(text, nodes):
    """Rows of distances, from numbers in the order of the rows, separated by commas."""
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        refuse("--distances", text, "must be whole numbers, separated by commas")
    if len(numbers) != nodes * nodes:
        refuse("--distances", text, f"these are {len(numbers)} numbers, and {nodes} nodes need {nodes} rows of {nodes}, {nodes * nodes} in all (see --nodes)")
    rows = tuple(tuple(numbers[nodes * here:nodes * (here + 1)]) for here in range(nodes))
    for here, row in enumerate(rows):
        for there, value in enumerate(row):
            where = f"from node {here} to node {there} it says {value}"
            if here == there and value != LOCAL:
                refuse("--distances", text, f"{where}, and a node's distance to itself is {LOCAL}")
            if here != there and not LOCAL < value <= LARGEST:
                refuse("--distances", text, f"{where}, which must be {LOCAL + 1} to {LARGEST} (Linux ignores a table with other numbers)")
            if value != rows[there][here]:
                refuse("--distances", text, f"{where}, and back {rows[there][here]}; both ways must be equally far")
    return rows


def arguments(rows):
    """What tells virtme-run."""
    return [word for here, row in enumerate(rows) for there, value in enumerate(row) if here != there
            for word in ("--numa-distance", f"src={here},dst={there},val={value}")]
