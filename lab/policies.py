# SPDX-License-Identifier: GPL-2.0-only
"""The policies: all names, their settings in text, those that are measured side by side, what tables call them, and their colours in pictures."""
from lab.errors import LabError

NAMES = ("linux", "hydra", "mitosis", "radixvm", "abis", "auto", "hydra-nofilter")    # of hydractl run --policy, in its order
OF_HYDRA = NAMES[1:-1]       # those of the kernel under which a process may have page tables of Hydra
COLUMNS = {"linux": "Linux", "mitosis": "Mitosis", "radixvm": "RadixVM", "abis": "ABIS", "hydra": "Hydra"}
POLICIES = tuple(COLUMNS)
COLOURS = {"linux": "#888888", "mitosis": "#8c5fa8", "radixvm": "#d9a441", "abis": "#5fa85f", "hydra": "#2a7fb8"}
# As hydractl has them, without those of the policy linux
SETTINGS = {"domains": "node llc core auto".split(), "replication": "lazy eager".split(), "prefetch": [str(degree) for degree in range(10)],
            "filter": "none table entry accessed auto".split()}


def in_list(text, option="--policies"):
    """The policies of a list with commas between, each with its settings: of 'linux,hydra,prefetch=4' or 'linux,hydra:prefetch=4' linux and hydra,prefetch=4."""
    found = []
    for part in (part.strip().replace(":", ",") for part in text.split(",") if part.strip()):
        if found and "=" in part.split(",")[0]:
            found[-1] += f",{part}"
        else:
            found.append(part)
    if not found:
        raise LabError(f"{option}: names no policy", f"Write names with commas between, e.g.  {option} linux,hydra", status=2)
    return found


def words(policy, option="--policies"):
    """The words for hydractl of a policy with its settings, as hydra,prefetch=4."""
    name, *changes = policy.split(",")
    if name not in NAMES:
        raise LabError(f"{option}: there is no policy '{name}'", f"There are {', '.join(NAMES)}; settings follow, as in  hydra,filter=accessed", status=2)
    for change in changes:
        key, _, value = change.partition("=")
        if value not in SETTINGS.get(key, ()):
            known = "; ".join(f"{setting}={'|'.join(values)}" for setting, values in SETTINGS.items())
            raise LabError(f"{option}: '{change}' in '{policy}' is no setting", f"Settings are {known}", status=2)
    if changes and name == "linux":
        raise LabError(f"{option}: policy linux replicates nothing: settings mean nothing there", status=2)
    return ("--policy", name, *(word for change in changes for word in (f"--{change.partition('=')[0]}", change.partition("=")[2])))


def add_settings(parser, what):
    """The options --domains, --replication, --prefetch and --filter, as hydractl has them."""
    for key, values in SETTINGS.items():
        parser.add_argument(f"--{key}", choices=values, metavar=key.upper(), help=f"{what}: {key}, as in hydra,{key}={values[0]}")


def with_options(policy, arguments):
    """A policy with the settings of these options; linux has none."""
    changes = [f"{key}={getattr(arguments, key)}" for key in SETTINGS if getattr(arguments, key) is not None]
    return policy if policy == "linux" else ",".join([policy, *changes])


def called(policy):
    """What a table calls a policy; a policy with other settings is called by them."""
    return COLUMNS.get(policy, policy)


def listed(policies):
    """'RadixVM, ABIS and Hydra'."""
    names = [called(policy) for policy in policies]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
