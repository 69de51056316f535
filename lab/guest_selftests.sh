#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs inside the virtual machine: guest_selftests.sh SECONDS PROGRAM…
# runs each program, for SECONDS at most, and marks in the output where each begins and ends. The words of ARGUMENTS are
# given to each. BROKEN is the rule that the kernel breaks meanwhile (see mm/hydra/inject.h).
limit=$1
shift
[ "$BROKEN" = none ] || echo "$BROKEN" >/sys/kernel/mm/hydra/break || exit
for program; do
	printf '\n### begin %s\n' "${program##*/}"
	timeout -k 5 "$limit" "$program" $ARGUMENTS 2>&1
	printf '\n### end %s %d\n' "${program##*/}" $?
done
