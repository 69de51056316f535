/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Calls __hydra_change_end() and preserves all registers, like preempt_schedule_thunk. A
 * C call would make gcc spill registers in change_pte_range(), on every mprotect(),
 * whether the call is made or not.
 */

#include <linux/linkage.h>
#include <asm/frame.h>

SYM_FUNC_START(hydra_change_end_thunk)
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
	call	__hydra_change_end
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
SYM_FUNC_END(hydra_change_end_thunk)
