/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM hydra

#if !defined(_TRACE_HYDRA_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_HYDRA_H

#include <linux/mm_types.h>
#include <linux/tracepoint.h>

/*
 * Events identify an address space by the id of its context, which is never used
 * again: the address of the mm_struct would reveal a kernel address.
 */

TRACE_EVENT(hydra_fill,

	TP_PROTO(struct mm_struct *mm, unsigned long addr, unsigned int domain,
		 unsigned int level, unsigned int prefetched),

	TP_ARGS(mm, addr, domain, level, prefetched),

	TP_STRUCT__entry(
		__field(u64, mm)
		__field(unsigned long, addr)
		__field(unsigned int, domain)
		__field(unsigned int, level)
		__field(unsigned int, prefetched)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__entry->addr = addr;
		__entry->domain = domain;
		__entry->level = level;
		__entry->prefetched = prefetched;
	),

	TP_printk("mm=%llu addr=0x%lx domain=%u level=%u prefetched=%u",
		  __entry->mm, __entry->addr, __entry->domain, __entry->level,
		  __entry->prefetched)
);

TRACE_EVENT(hydra_propagate,

	TP_PROTO(struct mm_struct *mm, unsigned long base, unsigned int index,
		 unsigned int domain, unsigned int level, unsigned int entries),

	TP_ARGS(mm, base, index, domain, level, entries),

	TP_STRUCT__entry(
		__field(u64, mm)
		__field(unsigned long, base)
		__field(unsigned int, index)
		__field(unsigned int, domain)
		__field(unsigned int, level)
		__field(unsigned int, entries)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__entry->base = base;
		__entry->index = index;
		__entry->domain = domain;
		__entry->level = level;
		__entry->entries = entries;
	),

	TP_printk("mm=%llu base=0x%lx index=%u domain=%u level=%u entries=%u",
		  __entry->mm, __entry->base, __entry->index, __entry->domain,
		  __entry->level, __entry->entries)
);

TRACE_EVENT(hydra_flush,

	TP_PROTO(struct mm_struct *mm, unsigned long start, unsigned long end,
		 u64 targets, unsigned int interrupted, unsigned int spared),

	TP_ARGS(mm, start, end, targets, interrupted, spared),

	TP_STRUCT__entry(
		__field(u64, mm)
		__field(unsigned long, start)
		__field(unsigned long, end)
		__field(u64, targets)
		__field(unsigned int, interrupted)
		__field(unsigned int, spared)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__entry->start = start;
		__entry->end = end;
		__entry->targets = targets;
		__entry->interrupted = interrupted;
		__entry->spared = spared;
	),

	TP_printk("mm=%llu start=0x%lx end=0x%lx targets=0x%llx interrupted=%u spared=%u",
		  __entry->mm, __entry->start, __entry->end, __entry->targets,
		  __entry->interrupted, __entry->spared)
);

TRACE_EVENT(hydra_forget,

	TP_PROTO(struct mm_struct *mm, unsigned long base, unsigned int domain,
		 unsigned int rent, unsigned int age),

	TP_ARGS(mm, base, domain, rent, age),

	TP_STRUCT__entry(
		__field(u64, mm)
		__field(unsigned long, base)
		__field(unsigned int, domain)
		__field(unsigned int, rent)
		__field(unsigned int, age)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__entry->base = base;
		__entry->domain = domain;
		__entry->rent = rent;
		__entry->age = age;
	),

	TP_printk("mm=%llu base=0x%lx domain=%u rent=%u age=%u",
		  __entry->mm, __entry->base, __entry->domain, __entry->rent,
		  __entry->age)
);

TRACE_EVENT(hydra_rehome,

	TP_PROTO(struct mm_struct *mm, unsigned long base, int from, int to),

	TP_ARGS(mm, base, from, to),

	TP_STRUCT__entry(
		__field(u64, mm)
		__field(unsigned long, base)
		__field(int, from)
		__field(int, to)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__entry->base = base;
		__entry->from = from;
		__entry->to = to;
	),

	TP_printk("mm=%llu base=0x%lx from=%d to=%d", __entry->mm, __entry->base,
		  __entry->from, __entry->to)
);

/* mode: enum hydra_mode_state; tally: 0 if a try begins, or the table goes by table */
TRACE_EVENT(hydra_mode,

	TP_PROTO(struct mm_struct *mm, unsigned long base, unsigned int mode, int tally),

	TP_ARGS(mm, base, mode, tally),

	TP_STRUCT__entry(
		__field(u64, mm)
		__field(unsigned long, base)
		__field(unsigned int, mode)
		__field(int, tally)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__entry->base = base;
		__entry->mode = mode;
		__entry->tally = tally;
	),

	TP_printk("mm=%llu base=0x%lx mode=%s tally=%d", __entry->mm, __entry->base,
		  __print_symbolic(__entry->mode, { 0, "try" }, { 1, "fine" }, { 2, "table" }),
		  __entry->tally)
);

/* from, to: states; why: as in /proc/PID/hydra; the times in ns */
TRACE_EVENT(hydra_auto,

	TP_PROTO(struct mm_struct *mm, const char *from, const char *to, const char *why,
		 u64 rent, u64 price, s64 balance),

	TP_ARGS(mm, from, to, why, rent, price, balance),

	TP_STRUCT__entry(
		__field(u64, mm)
		__string(from, from)
		__string(to, to)
		__string(why, why)
		__field(u64, rent)
		__field(u64, price)
		__field(s64, balance)
	),

	TP_fast_assign(
		__entry->mm = mm->context.ctx_id;
		__assign_str(from);
		__assign_str(to);
		__assign_str(why);
		__entry->rent = rent;
		__entry->price = price;
		__entry->balance = balance;
	),

	TP_printk("mm=%llu from=%s to=%s why=%s rent=%llu price=%llu balance=%lld",
		  __entry->mm, __get_str(from), __get_str(to), __get_str(why),
		  __entry->rent, __entry->price, __entry->balance)
);

#endif /* _TRACE_HYDRA_H */

#include <trace/define_trace.h>
