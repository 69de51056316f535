// SPDX-License-Identifier: GPL-2.0-only
/*
 * Trace events, and the branch in KVM's paths: on while a VM has a tree of nested tables for each
 * node.
 */

#include "hydra.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/* Off a second after the last such VM: to switch the key stops all CPUs. */
DEFINE_STATIC_KEY_DEFERRED_FALSE(hydra_vm_key, HZ);
