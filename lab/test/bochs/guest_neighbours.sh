#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs inside the virtual machine: guest_neighbours.sh CMD…
# runs CMD with a busy process on every CPU, at the lowest priority: whenever a thread of CMD sleeps, the CPU
# changes to the neighbour's address space, and back.
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
	chrt --idle 0 taskset --cpu-list "${cpu##*/cpu}" sh -c 'while :; do :; done' &
done
"$@"
