// SPDX-License-Identifier: GPL-2.0-only
/* The oracle's memory: zones, cells, their expected results, and mistakes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <numa.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "oracle.h"
#include "linux_uapi.h"

#define MISTAKES_SHOWN	8
#define GIB		(1UL << 30)

/*
 * The zones are far from the addresses where Linux puts mappings, so that Linux puts no
 * mapping into a hole. Small zones are side by side in four leaf tables, some zones in
 * two tables. A lonely page is alone in its tables on two levels.
 */
#define SMALL_AT	0x100000000000UL
#define LONELY_AT	0x200000000000UL
#define HUGE_AT		0x300000000000UL

#define SMALL(page, count)	.at = SMALL_AT + (page) * PAGE_SIZE, .cells = count, \
				.step = PAGE_SIZE, .size = PAGE_SIZE, .fd = -1, .disk = -1
#define LARGE(page, count, piece)	.at = HUGE_AT + (page) * HUGE_SIZE, .cells = count, \
				.step = piece, .size = piece, .huge = HUGE_SIZE / (piece), \
				.fd = -1, .disk = -1
#define PIECE			(16 * PAGE_SIZE)

struct zone zones[ZONES] = {
	[ANONYMOUS] =	{ "anonymous memory", SMALL(512 - 32, 64), .weight = 10 },
	[USERFAULT] =	{ "userfaultfd memory", SMALL(512 + 32, 32), .weight = 5 },
	[MERGEABLE] =	{ "mergeable memory", SMALL(512 + 64, 16), .weight = 3 },
	[MEMFD] =	{ "a memfd", SMALL(1024 - 16, 32), .weight = 5 },
	[PRIVATE_FILE] = { "a private file", SMALL(1024 + 16, 24), .weight = 4 },
	[SHARED_FILE] =	{ "a file", SMALL(1536 - 16, 32), .weight = 5 },
	[LONELY] =	{ "lonely pages", .at = LONELY_AT, .cells = 4, .step = GIB, .size = PAGE_SIZE,
			  .fd = -1, .disk = -1, .weight = 2 },
	[HUGE] =	{ "huge pages", LARGE(0, 192, PIECE), .weight = 6 },
	[HUGE_MEMFD] =	{ "huge pages of a memfd", LARGE(6, 64, PIECE), .weight = 4 },
	[HUGETLB_PRIVATE] = { "private hugetlb pages", LARGE(8, 2, HUGE_SIZE), .weight = 1 },
	[HUGETLB_SHARED] = { "shared hugetlb pages", LARGE(10, 3, HUGE_SIZE), .weight = 1 },
};

int userfault_fd;

uint64_t contents_by(unsigned int writer, unsigned long number, unsigned int part)
{
	return (uint64_t)writer << 56 | (uint64_t)(uint32_t)number << 24 | (uint64_t)(uint16_t)part << 8;
}

uint64_t file_contents(unsigned int backing)
{
	return contents_by(BY_FILE, 0, backing);
}

void fill_page(void *page, uint64_t contents)
{
	for (unsigned int word = 0; word < PATTERN_WORDS; word++)
		*(volatile uint64_t *)(page + pattern_offset(word)) = pattern_word(contents, word);
}

/* Files */

static bool make_file(struct zone *z, int fd)
{
	z->fd = fd;
	return fd >= 0 && !ftruncate(fd, z->cells * z->step);
}

static bool make_file_on_disk(struct zone *z, const char *name)
{
	char path[256];
	bool made;

	snprintf(path, sizeof(path), "%s/%s", run.directory, name);
	made = make_file(z, open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
	z->disk = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	/* Linux deletes the file when closed and unmapped. */
	unlink(path);
	return made && z->disk >= 0;
}

static bool write_private_file(void)
{
	struct zone *z = &zones[PRIVATE_FILE];
	char page[PAGE_SIZE] = "";

	for (unsigned int i = 0; i < z->cells; i++) {
		fill_page(page, file_contents(i));
		if (pwrite(z->fd, page, PAGE_SIZE, i * PAGE_SIZE) != PAGE_SIZE)
			return false;
	}
	return true;
}

static bool make_userfault(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP |
			    UFFD_FEATURE_MOVE,
	};

	userfault_fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	return userfault_fd >= 0 && !ioctl(userfault_fd, UFFDIO_API, &api);
}

const char *make_zones(void)
{
	for (struct zone *z = zones; z < zones + ZONES; z++)
		for (unsigned int i = 0; i < z->cells; i++) {
			pthread_mutex_init(&z->cell[i].lock, NULL);
			z->cell[i].now.backing = i;
			if (z == &zones[PRIVATE_FILE])
				z->cell[i].now.contents = file_contents(i);
		}
	if (!make_file(&zones[MEMFD], memfd_create("oracle", MFD_CLOEXEC)) ||
	    !make_file(&zones[HUGE_MEMFD], memfd_create("oracle", MFD_CLOEXEC)))
		return "no memfd (CONFIG_MEMFD_CREATE)";
	if (!make_file(&zones[HUGETLB_SHARED], memfd_create("oracle", MFD_HUGETLB | MFD_CLOEXEC)))
		return "no memfd of huge pages (CONFIG_HUGETLBFS)";
	if (!make_file_on_disk(&zones[SHARED_FILE], "shared") ||
	    !make_file_on_disk(&zones[PRIVATE_FILE], "private") || !write_private_file())
		return "no files on the file system made for them";
	if (!make_userfault())
		return "no userfaultfd that moves and protects pages (CONFIG_USERFAULTFD)";
	for (struct zone *z = zones; z < zones + ZONES; z++)
		for (unsigned int i = 0; i < z->cells; i++) {
			if (!map_cells(z, i, 1))
				return "not all kinds of memory can be mapped";
			announce(&z->cell[i]);
		}
	return NULL;
}

/* Mapping */

static bool map(char *addr, size_t size, int flags, int fd, off_t offset)
{
	return mmap(addr, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd, offset) == addr;
}

static bool map_anonymous(struct zone *z, unsigned int first, unsigned int count)
{
	return map(address(z, first), (count - 1) * z->step + z->size,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static bool map_huge(struct zone *z, unsigned int first, unsigned int count)
{
	return map_anonymous(z, first, count) &&
	       !madvise(address(z, first), count * z->step, MADV_HUGEPAGE);
}

/* Pages of the file need not be in order */
static bool map_file(struct zone *z, unsigned int first, unsigned int count)
{
	int flags = z == &zones[PRIVATE_FILE] ? MAP_PRIVATE : MAP_SHARED;
	unsigned int i = first, n;

	for (; i < first + count; i += n) {
		unsigned int backing = z->cell[i].now.backing;

		for (n = 1; i + n < first + count && z->cell[i + n].now.backing == backing + n; n++)
			;
		if (!map(address(z, i), n * z->step, flags, z->fd, backing * z->step))
			return false;
	}
	return z != &zones[HUGE_MEMFD] || !madvise(address(z, first), count * z->step, MADV_HUGEPAGE);
}

static bool map_userfault(struct zone *z, unsigned int first, unsigned int count)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)address(z, first), count * z->step },
		.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP,
	};

	/*
	 * Not for a child: a child would have no handler for its faults, and pages shared
	 * with a child cannot be moved. A probe may have faulted a page in before the
	 * range was registered.
	 */
	return map_anonymous(z, first, count) &&
	       !madvise(address(z, first), count * z->step, MADV_DONTFORK) &&
	       !ioctl(userfault_fd, UFFDIO_REGISTER, &reg) &&
	       !madvise(address(z, first), count * z->step, MADV_DONTNEED);
}

static bool map_hugetlb(struct zone *z, unsigned int first, unsigned int count)
{
	return map(address(z, first), count * z->step, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		   -1, 0);
}

bool map_cells(struct zone *z, unsigned int first, unsigned int count)
{
	static bool (* const how[ZONES])(struct zone *z, unsigned int first, unsigned int count) = {
		[ANONYMOUS] = map_anonymous, [LONELY] = map_anonymous, [MERGEABLE] = map_anonymous,
		[USERFAULT] = map_userfault, [MEMFD] = map_file,
		[PRIVATE_FILE] = map_file, [SHARED_FILE] = map_file, [HUGE] = map_huge,
		[HUGE_MEMFD] = map_file, [HUGETLB_PRIVATE] = map_hugetlb,
		[HUGETLB_SHARED] = map_file,
	};

	if (!how[z - zones](z, first, count))
		return false;
	for (unsigned int i = first; i < first + count; i++) {
		struct state *now = &z->cell[i].now;

		now->access = z == &zones[USERFAULT] ? ALL_IS_BUS : READ_WRITE;
		now->maybe_zero = false;
		if (is_in(z, PRIVATE_ZONES))
			now->contents = 0;
		else if (z == &zones[PRIVATE_FILE])
			now->contents = file_contents(now->backing);
	}
	return true;
}

char *map_own_page(unsigned int probe)
{
	char *page = (char *)OWN_AT + probe * TABLE_SIZE;

	return map(page, PAGE_SIZE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ? page : NULL;
}

/* What a cell says */

#define CHANGING	1UL
#define GENERATION	(1UL << 8)
#define ACCESS(said)	((said) >> 1 & 7)
#define MAYBE_ZERO(said)	((said) >> 4 & 1)

void announce_change(struct cell *c, uint64_t by, uint64_t contents_too)
{
	atomic_store(&c->by, by);
	atomic_store(&c->says_contents_too, contents_too);
	atomic_fetch_or(&c->said, CHANGING);
}

void announce(struct cell *c)
{
	unsigned long generation = atomic_load(&c->said) / GENERATION + 1;

	/* A probe that reads the contents before the state ignores both: see look_at(). */
	atomic_store(&c->says_contents, c->now.contents);
	atomic_store(&c->said, generation * GENERATION | c->now.access << 1 | c->now.maybe_zero << 4);
}

/* Mistakes */

atomic_uint mistakes;

static const char *in_words(uint64_t value, char text[64])
{
	unsigned int writer = value >> 56, number = value >> 24, part = value >> 8 & 0xffff;

	if (!value)
		snprintf(text, 64, "zeroes");
	else if (writer == BY_FILE)
		snprintf(text, 64, "page %u of the file", part);
	else if (writer == BY_CHILD)
		snprintf(text, 64, "what a child wrote (operation %u)", number);
	else if (writer && writer <= run.changers)
		snprintf(text, 64, "what %u.%u wrote (part %u)", writer - 1, number, part);
	else
		snprintf(text, 64, "%#lx, which no operation wrote", value);
	return text;
}

static const char *signal_name(int sig)
{
	return sig == SIGSEGV ? "SIGSEGV" : sig == SIGBUS ? "SIGBUS" : "success";
}

void mistake(uint64_t by, const struct looker *l, const void *addr, const char *format, ...)
{
	unsigned int nth = atomic_fetch_add(&mistakes, 1);
	char text[512];
	va_list args;
	int len;

	if (nth >= MISTAKES_SHOWN)
		return;
	len = snprintf(text, sizeof(text), "# MISTAKE seed %lu, policy %s, operation %lu.%u (%s), CPU %d on node %d, address %p: ",
		       run.seed, run.policy, (by >> 56) - 1, (uint32_t)(by >> 24),
		       kinds[by & 0xff].name, l->cpu, numa_node_of_cpu(l->cpu), addr);
	va_start(args, format);
	len += vsnprintf(text + len, sizeof(text) - len, format, args);
	va_end(args);
	if (len >= (int)sizeof(text) - 1)
		len = sizeof(text) - 2;
	text[len++] = '\n';
	/* at once, and without locks: a child of fork may call mistake() */
	if (write(STDERR_FILENO, text, len) != len)
		_exit(1);
}

/* Looks */

static const int read_signal[] = {
	[HOLE] = SIGSEGV, [NO_ACCESS] = SIGSEGV, [READ_IS_BUS] = SIGBUS, [ALL_IS_BUS] = SIGBUS,
};
static const int write_signal[] = {
	[HOLE] = SIGSEGV, [NO_ACCESS] = SIGSEGV, [READ_ONLY] = SIGSEGV, [READ_IS_BUS] = SIGSEGV,
	[WRITE_IS_BUS] = SIGBUS, [ALL_IS_BUS] = SIGBUS,
};

static void check_signal(uint64_t by, struct looker *l, const char *addr, const char *what,
			 int expected, int got)
{
	if (expected != got)
		mistake(by, l, addr, "%s: expected %s, got %s", what, signal_name(expected),
			signal_name(got));
}

void look_at(struct looker *l, struct zone *z, unsigned int cell, unsigned int word,
	     enum look how, uint64_t stamp, struct sight *sight)
{
	struct cell *c = &z->cell[cell];
	/* The state first: contents of a later state are then never taken for earlier ones. */
	unsigned long said = atomic_load(&c->said);
	uint64_t contents = atomic_load(&c->says_contents);
	uint64_t contents_too = atomic_load(&c->says_contents_too), by = atomic_load(&c->by);
	enum access access = ACCESS(said);
	bool changing = said & CHANGING, reads, writes;
	uint64_t expected = pattern_word(contents, word);
	char *page = address(z, cell), *from = page + pattern_offset(word);
	char *to = page + (how == LOOK_CLOSELY ? stamp_offset(l->probe) : scratch_offset(l->probe));
	char text[2][64];
	struct sight is = {
		.read_signal = read_signal[access], .write_signal = write_signal[access],
		.value = expected,
	};
	struct sight ought = is;

	reads = writes = true;
	if (how == LOOK) {
		reads = may_read(access) && !changing;
		writes = access == READ_WRITE && !changing;
	} else if (how == LOOK_ANYHOW || !may_read(access)) {
		reads = hydra_random(&l->random) % 2;
		writes = !reads;
	}
	/* KSM merges only equal pages */
	if (l->probe < 0 || (z == &zones[MERGEABLE] && (access == READ_WRITE || changing)))
		writes = false;

	if (reads)
		is.read_signal = hydra_try_read(from, &is.value);
	if (writes)
		is.write_signal = hydra_try_write(to, stamp);
	*sight = is;
	atomic_fetch_add(&looks, reads + writes);

	if (atomic_load(&c->said) != said) {
		if (how == LOOK_CLOSELY)
			mistake(by, l, from, "the oracle itself is wrong: the cell was not locked");
	} else if (changing) {
		if (reads && !is.read_signal && is.value && is.value != expected &&
		    is.value != pattern_word(contents_too, word) && is.value >> 24 != by >> 24 &&
		    is.value >> 56 != BY_FILE)
			mistake(by, l, from, "read meanwhile: got %s, expected %s",
				in_words(is.value, text[0]), in_words(contents, text[1]));
	} else {
		check_signal(by, l, from, "read", ought.read_signal, is.read_signal);
		check_signal(by, l, to, "write", ought.write_signal, is.write_signal);
		if (!is.read_signal && !ought.read_signal && is.value != expected &&
		    (is.value || !MAYBE_ZERO(said)))
			mistake(by, l, from, "read: expected %s, got %s",
				in_words(expected, text[0]), in_words(is.value, text[1]));
	}
}
