#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs inside the virtual machine: guest_load.sh MINUTES PHASES NAME=COMMAND…
# For so many minutes, under policy auto, which looks every 100 ms: PHASES, which lives as long, and beside it the short
# commands, in two rows. Prints the counters before and after, and each decision of the policy.
minutes=$1 phases=$2
shift 2
hydra=/sys/kernel/mm/hydra tracing=/sys/kernel/tracing

counters() {
	echo 3 >/proc/sys/vm/drop_caches
	printf '### %s violations %s total_kib %s %s\n' "$1" "$(cat $hydra/violations)" "$(cat $hydra/total_kib)" \
		"$(tr '\n' ' ' <$hydra/auto/stats)$(awk '/^(PageTables|SUnreclaim):/ { printf "%s %s ", $1, $2 }' /proc/meminfo)"
}

# row NAME=COMMAND…: again and again until the time is over
row() {
	local command
	while :; do
		for command; do
			[ "$SECONDS" -lt $((minutes * 60)) ] || return 0
			eval "timeout -k 5 120 ${command#*=}"
			printf '### ended %s %d after %d s\n' "${command%%=*}" $? "$SECONDS"
		done
	done
}

mountpoint -q $tracing || mount -t tracefs tracefs $tracing || exit
echo 100 >$hydra/auto/look_ms || exit
for price in fill root change more look flush release; do
	echo 1 >$hydra/auto/price_$price || exit
done
# An emulator with checkers is slow: at the usual price interrupts are too few to matter, and no process is split.
echo 100000 >$hydra/auto/price_interrupt || exit
echo 4096 >$tracing/buffer_size_kb
echo 1 >$tracing/events/hydra/hydra_auto/enable || exit
grep --line-buffered -o 'hydra_auto: .*' $tracing/trace_pipe &
counters before
SECONDS=0
"$phases" --minutes "$minutes" &
long=$!
mkdir -m 1777 /tmp/load && cd /tmp/load || exit
row "$@" &
first=$!
row "${@:$# / 2}" "$@" &
second=$!
wait $first $second
wait $long
printf '### phases %d\n' $?
# What has ended is freed after a grace period, and each keeper looks once a second.
sleep 10
counters after
kill %1
