# SPDX-License-Identifier: GPL-2.0-only
"""The policies: all names, those that are measured side by side, what tables call them, and their colours in pictures."""

NAMES = ("linux", "hydra", "mitosis", "radixvm", "abis", "auto", "hydra-nofilter")    # of hydractl run --policy, in its order
OF_HYDRA = NAMES[1:-1]       # those of the kernel under which a process may have page tables of Hydra
COLUMNS = {"linux": "Linux", "mitosis": "Mitosis", "radixvm": "RadixVM", "abis": "ABIS", "hydra": "Hydra"}
POLICIES = tuple(COLUMNS)
COLOURS = {"linux": "#888888", "mitosis": "#8c5fa8", "radixvm": "#d9a441", "abis": "#5fa85f", "hydra": "#2a7fb8"}


def called(policy):
    """What a table calls a policy; a policy with other settings is called by them."""
    return COLUMNS.get(policy, policy)


def listed(policies):
    """'RadixVM, ABIS and Hydra'."""
    names = [called(policy) for policy in policies]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
