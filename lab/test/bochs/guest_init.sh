#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The first process of a machine that has no other file system than the one it was started with: sets up what programs
# expect, runs /command with its output on the second serial line, and switches the machine off.
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
# The neighbours that /command leaves running keep the line open, so closing it has not waited for what is still to be sent.
# Setting it does.
stty -F /dev/ttyS1 raw
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
