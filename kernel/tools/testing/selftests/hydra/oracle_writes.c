// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle's operations about writing: pages put in and protected by
 * userfaultfd, writes by way of the kernel, what Linux learns of writes.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "oracle_operations.h"

static int source_fd;
/* Locked while a changer clears the soft-dirty bits */
static pthread_mutex_t clear_refs = PTHREAD_MUTEX_INITIALIZER;

/* userfaultfd */

static bool set_write_protection(struct op *op, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)start(op), length(op) },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	if (!must(op, !ioctl(userfault_fd, UFFDIO_WRITEPROTECT, &wp), "UFFDIO_WRITEPROTECT"))
		return false;
	for_cells(op, c)
		c->now.access = on ? WRITE_IS_BUS : READ_WRITE;
	return true;
}

bool write_protect(struct op *op)
{
	return set_write_protection(op, true);
}

bool write_unprotect(struct op *op)
{
	return set_write_protection(op, false);
}

bool copy_in(struct op *op)
{
	char page[PAGE_SIZE] = "";

	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct uffdio_copy copy = {
			.dst = (uintptr_t)address(op->zone, i),
			.src = (uintptr_t)page, .len = PAGE_SIZE,
		};
		struct state *now = &op->zone->cell[i].now;

		now->contents = new_contents(op, i);
		fill_page(page, now->contents);
		if (!must(op, !ioctl(userfault_fd, UFFDIO_COPY, &copy), "UFFDIO_COPY"))
			return false;
		now->access = READ_WRITE;
	}
	return true;
}

bool zero_in(struct op *op)
{
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct uffdio_zeropage zero = {
			.range = { (uintptr_t)address(op->zone, i), PAGE_SIZE },
		};

		if (!must(op, !ioctl(userfault_fd, UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE"))
			return false;
		op->zone->cell[i].now.access = READ_WRITE;
		becomes_zero(&op->zone->cell[i]);
	}
	return true;
}

static bool move_page_in(struct op *op, unsigned int from, unsigned int to)
{
	struct uffdio_move arg = {
		.dst = (uintptr_t)address(op->zone, to),
		.src = (uintptr_t)address(op->zone, from), .len = PAGE_SIZE,
	};

	for (int tries = 0; tries < 10; tries++) {
		if (!ioctl(userfault_fd, UFFDIO_MOVE, &arg))
			return true;
		/* A probe uses the page just now. */
		if (!must(op, errno == EBUSY || errno == EAGAIN, "UFFDIO_MOVE"))
			return false;
	}
	return false;
}

bool move_in(struct op *op)
{
	struct zone *z = op->zone;
	bool moved = false;

	if (!must(op, map_cells(z, op->other, op->count), "mmap"))
		return false;
	for (unsigned int i = 0; i < op->count; i++) {
		struct state *from = &z->cell[op->first + i].now, *to = &z->cell[op->other + i].now;

		if (!move_page_in(op, op->first + i, op->other + i))
			continue;
		*to = (struct state){ READ_WRITE, false, from->contents, to->backing };
		*from = (struct state){ ALL_IS_BUS, false, 0, from->backing };
		moved = true;
	}
	return moved;
}

/* Writes by the kernel, which looks up the pages in Linux's table */

bool write_from_elsewhere(struct op *op)
{
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct state *now = &op->zone->cell[i].now;
		long written;

		pthread_mutex_lock(&helper_lock);
		now->contents = new_contents(op, i);
		now->maybe_zero = false;
		fill_page(helper->page, now->contents);
		helper->from = (struct iovec){ helper->page, PAGE_SIZE };
		helper->to = (struct iovec){ address(op->zone, i), PAGE_SIZE };
		if (i % 2)
			written = process_vm_writev(self, &helper->from, 1, &helper->to, 1, 0);
		else
			written = by_helper(SYS_process_vm_writev, self, (long)&helper->from, 1,
					    (long)&helper->to, 1, 0);
		pthread_mutex_unlock(&helper_lock);
		if (!must(op, written == PAGE_SIZE, "process_vm_writev"))
			return false;
	}
	return true;
}

bool read_from_disk(struct op *op)
{
	char page[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE))) = "";
	off_t offset = op->changer * PAGE_SIZE;

	if (op->count > 2)
		op->count = 2;
	for (unsigned int i = op->first; i < op->first + op->count; i++) {
		struct state *now = &op->zone->cell[i].now;

		now->contents = new_contents(op, i);
		now->maybe_zero = false;
		fill_page(page, now->contents);
		if (!must(op, pwrite(source_fd, page, PAGE_SIZE, offset) == PAGE_SIZE,
			  "writing past the page cache") ||
		    !must(op, pread(source_fd, address(op->zone, i), PAGE_SIZE, offset) == PAGE_SIZE,
			  "reading past the page cache"))
			return false;
	}
	return true;
}

/* What Linux learns of writes */

static bool must_be_written(const struct op *op, unsigned int sample)
{
	return sample - op->first < op->count && op->zone != &zones[MERGEABLE] &&
	       op->zone->cell[sample].now.access == READ_WRITE;
}

/*
 * Linux 6.12 loses track of a page if the bits are cleared while the page moves:
 * clear_refs leaves the migration entry writable, and after the move the page is
 * writable. Linux also moves pages without move_pages(), for example to make a huge page.
 * Linux counts a batch of moved pages after the last page of the batch; the other pages
 * are mapped again long before.
 */
static uint64_t pages_migrated(void)
{
	return hydra_vmstat("pgmigrate_success") + hydra_vmstat("pgmigrate_fail");
}

static bool migrated_since(uint64_t before)
{
	if (pages_migrated() == before)
		sleep(1);
	return pages_migrated() != before;
}

bool clear_soft_dirty(struct op *op)
{
	op->rewrite[0] = false;
	pthread_mutex_lock(&clear_refs);
	op->note[1] = pages_migrated();
	if (!must(op, !hydra_write_file("/proc/self/clear_refs", "4"), "clear_refs")) {
		pthread_mutex_unlock(&clear_refs);
		return false;
	}
	op->note[0] = !(pagemap(start(op)) & SOFT_DIRTY);
	return true;
}

void was_soft_dirtied(struct op *op)
{
	struct looker l = { .cpu = sched_getcpu() };

	for (int i = 0; i < SAMPLES; i++) {
		char *addr = address(op->zone, op->sample[i]);

		if (must_be_written(op, op->sample[i]) && !(pagemap(addr) & SOFT_DIRTY) &&
		    !migrated_since(op->note[1]))
			mistake(op_id(op), &l, addr, "soft-dirty: expected yes, since all CPUs have written it, got no");
	}
	pthread_mutex_unlock(&clear_refs);
	if (op->note[0] && pagemap(start(op)) & SOFT_DIRTY)
		proved(op);
}

bool write_back(struct op *op)
{
	return must(op, !msync(start(op), length(op), MS_SYNC), "msync");
}

void is_on_disk(struct op *op)
{
	uint64_t words[PAGE_SIZE / 8] __attribute__((aligned(PAGE_SIZE)));
	struct looker l = { .cpu = sched_getcpu() };

	/* The probes have written the stamps of the first half. */
	op->half = 0;
	if (!must(op, !msync(start(op), length(op), MS_SYNC), "msync"))
		return;
	for (int i = 0; i < SAMPLES; i++) {
		const struct cell *c = &op->zone->cell[op->sample[i]];

		if (!must_be_written(op, op->sample[i]))
			continue;
		if (!must(op, pread(op->zone->disk, words, PAGE_SIZE,
				    c->now.backing * op->zone->step) == PAGE_SIZE,
			  "reading past the page cache"))
			return;
		for (unsigned int p = 0; p < nr_probes(); p++) {
			uint64_t got = words[stamp_offset(p) / 8];

			if (got != stamp(op, p))
				mistake(op_id(op), &l, address(op->zone, op->sample[i]), "on disk: expected %#lx, which CPU %d has written, got %#lx",
					stamp(op, p), probe_cpu(p), got);
		}
		proved(op);
	}
	op->half = 1;
}

const char *prepare_writes(void)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/source", run.directory);
	source_fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	unlink(path);
	return source_fd < 0 ? "no file that can be read past the page cache" : NULL;
}
