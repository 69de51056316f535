#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The first process of a machine whose only file system is the initial one: mounts the usual file systems,
# runs /command with output to the second serial line, and switches the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mkdir -p /proc /sys /dev /tmp /run /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t debugfs debugfs /sys/kernel/debug
stty -F /dev/ttyS1 raw 115200
sh /command >/dev/ttyS1 2>&1
# Running neighbours of /command keep the line open, so a close does not wait for pending output. A change of
# the line's settings waits.
stty -F /dev/ttyS1 raw
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
