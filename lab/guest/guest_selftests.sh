#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs inside the virtual machine: guest_selftests.sh SECONDS PROGRAM…
# runs each program, for SECONDS at most, and marks in the output where each begins and ends, with status and
# seconds. After a PROGRAM's path, " -" and words for the program may follow; every program gets the words of
# ARGUMENTS. BROKEN is the rule that the kernel breaks meanwhile (see kernel/hooks/injected-faults.patch). HELD is
# guest_held_vms.py, for tests with virtual machines.
limit=$1
shift
[ -z "$HELD" ] || python3 "$HELD" || exit
[ "$BROKEN" = none ] || echo "$BROKEN" >/sys/kernel/mm/hydra/break || exit
for program; do
	path=${program%% -*}
	words=${program#"$path"}
	name=${path##*/}
	printf '\n### begin %s\n' "$name"
	read -r begun _ </proc/uptime
	# The words are to be split.
	# shellcheck disable=SC2086
	timeout -k 5 "$limit" "$path" $words $ARGUMENTS 2>&1
	status=$?
	read -r ended _ </proc/uptime
	printf '\n### end %s %d %d\n' "$name" $status $((${ended%.*} - ${begun%.*}))
done
