/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls that keep all registers, like preempt_schedule_thunk. Each stands in a function
 * of which gcc keeps the variables in registers that a call of C code would overwrite:
 * every mprotect() and fork() would pay for the call, made or not.
 */

#include <linux/linkage.h>
#include <asm/frame.h>

.macro HYDRA_THUNK name, func
SYM_FUNC_START(\name)
	FRAME_BEGIN
	pushq	%rax
	pushq	%rcx
	pushq	%rdx
	pushq	%rsi
	pushq	%rdi
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	call	\func
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rdi
	popq	%rsi
	popq	%rdx
	popq	%rcx
	popq	%rax
	FRAME_END
	RET
SYM_FUNC_END(\name)
.endm

HYDRA_THUNK hydra_change_end_thunk, __hydra_change_end
HYDRA_THUNK hydra_entries_changed_thunk, __hydra_entries_changed
