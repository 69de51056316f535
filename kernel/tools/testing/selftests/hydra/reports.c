// SPDX-License-Identifier: GPL-2.0-only
/*
 * What programs of public bug reports do with their memory: debuggers, garbage collectors, ring
 * buffers, io_uring, hash tables. Each test runs under Linux's own page tables, too, where it
 * shows that the expectation is Linux's.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "hydra_util.h"
#include "linux_uapi.h"

#define PAGES		8
#define SIZE		(PAGES * PAGE_SIZE)
#define ROUNDS		6
#define TIMEOUT_S	60

/* The first word of a page */
#define WORD(area, page)	(*(volatile uint64_t *)((char *)(area) + (page) * PAGE_SIZE))

FIXTURE(reports) {
	char *area;	/* four leaf tables, without a mapping */
	int last;	/* node */
};

FIXTURE_VARIANT(reports) {
	const char *policy;
};

FIXTURE_VARIANT_ADD(reports, linux) {
	.policy = "linux",
};

FIXTURE_VARIANT_ADD(reports, hydra) {
	.policy = "hydra",
};

FIXTURE_VARIANT_ADD(reports, accessed) {
	.policy = "hydra,filter=accessed",
};

FIXTURE_VARIANT_ADD(reports, abis) {
	.policy = "abis",
};

FIXTURE_SETUP(reports)
{
	HYDRA_BEGIN();
	ASSERT_EQ(0, hydra_write_policy(getpid(), variant->policy));
	self->area = hydra_reserve(4 * TABLE_SIZE);
	self->last = hydra_nodes() - 1;
	hydra_start_workers(HYDRA_SLEEP);
}

FIXTURE_TEARDOWN(reports)
{
	hydra_assert_consistent();
	hydra_stop_workers();
}

/* Workers write and read the first words of pages; the value tells the page. */

static struct {
	char *area;
	size_t pages, mistakes;
	uint64_t value;
} job;

static void write_words(void *arg)
{
	for (size_t page = 0; page < job.pages; page++)
		WORD(job.area, page) = job.value + page;
}

static void read_words(void *arg)
{
	for (size_t page = 0; page < job.pages; page++)
		job.mistakes += WORD(job.area, page) != job.value + page;
}

static void write_on(int node, void *area, size_t pages, uint64_t value)
{
	job.area = area;
	job.pages = pages;
	job.value = value;
	hydra_run(node, write_words, NULL);
}

/* Return: how many words some node reads wrong. */
static size_t wrong_words(void *area, size_t pages, uint64_t value)
{
	job.area = area;
	job.pages = pages;
	job.value = value;
	job.mistakes = 0;
	for (int node = 0; node < hydra_nodes(); node++)
		hydra_run(node, read_words, NULL);
	return job.mistakes;
}

/*
 * A crowd: a thread on each node after the first, which calls a function again and again
 * while the test's thread changes the memory.
 */
struct member {
	pthread_t thread;
	int node;
	atomic_ulong rounds, mistakes;
	uint64_t own[TABLE_PAGES];	/* what the member has written */
};

static struct {
	void (*act)(struct member *m);
	atomic_bool stop;
	struct member member[HYDRA_MAX_NODES];
} crowd;

static void *member_main(void *arg)
{
	struct member *m = arg;

	hydra_pin_to_node(m->node);
	while (!atomic_load(&crowd.stop)) {
		crowd.act(m);
		atomic_fetch_add(&m->rounds, 1);
	}
	return NULL;
}

/* Wait until each member has ended a round that began after the call. */
static void crowd_await(void)
{
	for (int node = 1; node < hydra_nodes(); node++) {
		struct member *m = &crowd.member[node];
		unsigned long rounds = atomic_load(&m->rounds);

		while (atomic_load(&m->rounds) < rounds + 2)
			usleep(200);
	}
}

static void crowd_begin(void (*act)(struct member *m))
{
	crowd.act = act;
	atomic_store(&crowd.stop, false);
	for (int node = 1; node < hydra_nodes(); node++) {
		struct member *m = &crowd.member[node];

		m->node = node;
		if (pthread_create(&m->thread, NULL, member_main, m))
			abort();
	}
	crowd_await();
}

/* Return: the members' mistakes. */
static unsigned long crowd_end(void)
{
	unsigned long mistakes = 0;

	atomic_store(&crowd.stop, true);
	for (int node = 1; node < hydra_nodes(); node++) {
		pthread_join(crowd.member[node].thread, NULL);
		mistakes += atomic_load(&crowd.member[node].mistakes);
	}
	return mistakes;
}

/* What the members use */
static char *place;
static int file;
static atomic_ulong oldest, newest;

/* Single pages, each alone in its leaf table: the tables of all nodes go with the mapping. */
TEST_F(reports, tables_go_with_the_mapping)
{
	const size_t tables = 64;
	char *area = hydra_reserve(tables * TABLE_SIZE);
	long before, used, after;

	/* Each node has its tables of what the test itself uses: program, stacks and libraries. */
	hydra_map(area, 1);
	write_on(0, area, 1, 0);
	EXPECT_EQ(0, wrong_words(area, 1, 0));
	before = hydra_number("/proc/self/status", "VmPTE:");
	for (size_t i = 0; i < tables; i++) {
		hydra_map(area + i * TABLE_SIZE, 1);
		write_on(0, area + i * TABLE_SIZE, 1, i);
		EXPECT_EQ(0, wrong_words(area + i * TABLE_SIZE, 1, i));
	}
	used = hydra_number("/proc/self/status", "VmPTE:");
	EXPECT_LE(before + (long)(tables - 1) * 4, used);
	ASSERT_EQ(0, munmap(area, tables * TABLE_SIZE));
	after = hydra_number("/proc/self/status", "VmPTE:");
	/* A node may have tables again that it had lost before, of each of three levels. */
	EXPECT_GE(before + 3 * 4 * hydra_nodes(), after);
}

static void read_ring(struct member *m)
{
	for (size_t page = 0; page < 2 * PAGES; page++) {
		uint64_t least = atomic_load(&oldest), value = WORD(place, page);

		if (value % PAGES != page % PAGES || value / PAGES < least ||
		    value / PAGES > atomic_load(&newest))
			atomic_fetch_add(&m->mistakes, 1);
	}
}

/* A ring buffer that is mapped twice: a new mapping replaces the old one, and leaves no hole. */
TEST_F_TIMEOUT(reports, new_mapping_replaces_the_old_one_for_readers, TIMEOUT_S)
{
	place = self->area + TABLE_SIZE - SIZE;
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		int fd = memfd_create("ring", MFD_CLOEXEC);

		ASSERT_EQ(0, ftruncate(fd, SIZE));
		for (size_t page = 0; page < PAGES; page++) {
			uint64_t value = i * PAGES + page;

			ASSERT_EQ(sizeof(value),
				  pwrite(fd, &value, sizeof(value), page * PAGE_SIZE));
		}
		atomic_store(&newest, i);
		for (int half = 0; half < 2; half++)
			ASSERT_EQ(place + half * SIZE,
				  mmap(place + half * SIZE, SIZE, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_FIXED | (i % 2 ? 0 : MAP_POPULATE), fd, 0));
		atomic_store(&oldest, i);
		close(fd);
		if (i == 1)
			crowd_begin(read_ring);
		crowd_await();
	}
	EXPECT_EQ(0, crowd_end());
}

#define POKED	0x6666666666666666UL

/* The last node drops the copies; the others read them and the file. */
static void drop_or_read_copies(struct member *m)
{
	for (size_t page = 0; page < PAGES; page++) {
		uint64_t value;

		if (m->node == hydra_nodes() - 1) {
			if (madvise(place + page * PAGE_SIZE, PAGE_SIZE, MADV_DONTNEED))
				abort();
			continue;
		}
		value = WORD(place, page);
		if (value != POKED && value != page)
			atomic_fetch_add(&m->mistakes, 1);
		if (pread(file, &value, sizeof(value), page * PAGE_SIZE) != sizeof(value) ||
		    value != page)
			atomic_fetch_add(&m->mistakes, 1);
	}
}

/* A write through /proc/PID/mem to a read-only private mapping never reaches the file. */
TEST_F_TIMEOUT(reports, forced_write_does_not_reach_the_file, TIMEOUT_S)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	const uint64_t poked = POKED;
	uint64_t value;

	ASSERT_LE(0, mem);
	place = self->area;
	file = memfd_create("file", MFD_CLOEXEC);
	for (value = 0; value < PAGES; value++)
		ASSERT_EQ(sizeof(value), pwrite(file, &value, sizeof(value), value * PAGE_SIZE));
	ASSERT_EQ(0, ftruncate(file, SIZE));
	ASSERT_EQ(place, mmap(place, SIZE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0));
	EXPECT_EQ(0, wrong_words(place, PAGES, 0));
	crowd_begin(drop_or_read_copies);
	for (int i = 0; i < 20 * PAGES; i++)
		ASSERT_EQ(sizeof(poked), pwrite(mem, &poked, sizeof(poked),
						(uintptr_t)place + i % PAGES * PAGE_SIZE));
	crowd_await();
	EXPECT_EQ(0, crowd_end());
	/* All nodes see a page that madvise() no longer drops. */
	EXPECT_EQ(sizeof(poked), pwrite(mem, &poked, sizeof(poked), (uintptr_t)place));
	EXPECT_EQ(0, wrong_words(place, 1, POKED));
	close(file);
	close(mem);
}

static atomic_ulong signals;

static void count_signal(int sig)
{
	atomic_fetch_add(&signals, 1);
}

struct text {
	const void *code;
	int sig, value;
};

static void call_text(void *arg)
{
	struct text *t = arg;

	t->sig = hydra_try_call(t->code, &t->value);
}

/* A debugger, another process on the last node, writes a byte of the text. */
static int poke(const void *code, unsigned char byte)
{
	char path[64];
	pid_t child;

	snprintf(path, sizeof(path), "/proc/%d/mem", getpid());
	child = fork();
	if (!child) {
		int mem = open(path, O_RDWR);

		hydra_pin_to_node(hydra_nodes() - 1);
		_exit(pwrite(mem, &byte, 1, (uintptr_t)code) == 1 ? 0 : 1);
	}
	return hydra_wait_child(child);
}

/* Threads of all nodes meet a breakpoint, once it is there, and no more when it is gone. */
TEST_F_TIMEOUT(reports, breakpoint_is_met_by_all_nodes, TIMEOUT_S)
{
	/* nop; mov $42, %eax; ret */
	static const unsigned char code[] = { 0x90, 0xb8, 42, 0, 0, 0, 0xc3 };
	static struct text t;
	unsigned char byte;

	ASSERT_NE(SIG_ERR, signal(SIGTRAP, count_signal));
	file = memfd_create("text", MFD_CLOEXEC);
	ASSERT_EQ(sizeof(code), write(file, code, sizeof(code)));
	ASSERT_EQ(self->area, mmap(self->area, PAGE_SIZE, PROT_READ | PROT_EXEC,
				   MAP_PRIVATE | MAP_FIXED, file, 0));
	for (int round = 0; round < 4; round++) {
		bool armed = round % 2;

		if (round)
			ASSERT_EQ(0, poke(self->area, armed ? 0xcc : code[0]));
		for (int node = 0; node <= self->last; node++) {
			atomic_store(&signals, 0);
			t = (struct text){ .code = self->area };
			hydra_run(node, call_text, &t);
			EXPECT_EQ(armed, atomic_load(&signals))
				TH_LOG("node %d, round %d", node, round);
			EXPECT_EQ(0, t.sig);
			EXPECT_EQ(42, t.value);
		}
	}
	ASSERT_EQ(1, pread(file, &byte, 1, 0));
	EXPECT_EQ(code[0], byte);
	close(file);
}

static void unprotect(int sig, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)info->si_addr & ~(PAGE_SIZE - 1);

	atomic_fetch_add(&signals, 1);
	if (page < (uintptr_t)place || page >= (uintptr_t)place + SIZE ||
	    mprotect((void *)page, PAGE_SIZE, PROT_READ | PROT_WRITE))
		_exit(110);
}

/* The write barrier of a garbage collector: each page traps once a cycle, on whichever node. */
TEST_F(reports, write_barrier_traps_once_a_page)
{
	struct sigaction action = { .sa_sigaction = unprotect, .sa_flags = SA_SIGINFO };

	ASSERT_EQ(0, sigaction(SIGSEGV, &action, NULL));
	place = hydra_map(self->area, PAGES);
	for (int cycle = 0; cycle < ROUNDS; cycle++) {
		ASSERT_EQ(0, hydra_syscall(cycle % hydra_nodes(), SYS_mprotect, (long)place, SIZE,
					   PROT_READ));
		atomic_store(&signals, 0);
		for (int i = 0; i < hydra_nodes(); i++) {
			int node = (cycle + 1 + i) % hydra_nodes();

			write_on(node, place, PAGES, 100 * cycle + node);
			EXPECT_EQ(0, wrong_words(place, PAGES, 100 * cycle + node));
		}
		EXPECT_EQ(PAGES, atomic_load(&signals))
			TH_LOG("cycle %d", cycle);
	}
}

/* As a child of vfork(), on another node, before it executes a program */
static int change_memory(void *arg)
{
	hydra_pin_to_node((intptr_t)arg);
	if (WORD(place, 0) != 1 || WORD(place, 1) != 2)
		return 1;
	WORD(place, 0) = 7;
	if (madvise(place + PAGE_SIZE, 2 * PAGE_SIZE, MADV_DONTNEED) ||
	    mprotect(place + 2 * PAGE_SIZE, PAGE_SIZE, PROT_READ))
		return 2;
	return 0;
}

static void lend_memory(void *arg)
{
	static char stack[16 * PAGE_SIZE];

	*(int *)arg = hydra_wait_child(clone(change_memory, stack + sizeof(stack),
					     CLONE_VM | CLONE_VFORK | SIGCHLD,
					     (void *)(intptr_t)*(int *)arg));
}

/* The child borrows the memory: what it changes on another node is changed for all threads. */
TEST_F(reports, child_of_vfork_changes_the_memory)
{
	int arg;

	place = self->area;
	for (int node = 0; node <= self->last; node++) {
		hydra_map(place, 3);
		write_on(node, place, 3, 1);
		EXPECT_EQ(0, wrong_words(place, 3, 1));
		arg = (node + 1) % hydra_nodes();
		hydra_run(node, lend_memory, &arg);
		EXPECT_EQ(0, arg);
		EXPECT_EQ(0, wrong_words(place, 1, 7));
		EXPECT_EQ(0, wrong_words(place + PAGE_SIZE, 1, 0));
		PROBE_ALL(place + 2 * PAGE_SIZE, 1, HYDRA_READ_ONLY, 0);
		ASSERT_EQ(0, munmap(place, 3 * PAGE_SIZE));
	}
}

#define BITMAP	"/sys/kernel/mm/page_idle/bitmap"

static void read_every_second(void *arg)
{
	for (size_t page = 0; page < PAGES; page += 2)
		(void)WORD(place, page);
}

/* Tools that measure a working set: what any node has used is not idle. */
TEST_F(reports, used_pages_are_not_idle)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	int bitmap = open(BITMAP, O_RDWR | O_CLOEXEC);
	uint64_t frame[PAGES], word;

	if (bitmap < 0)
		SKIP(return, "no " BITMAP " (CONFIG_IDLE_PAGE_TRACKING)");
	place = hydra_map(self->area, PAGES);
	write_on(0, place, PAGES, 1);
	EXPECT_EQ(0, wrong_words(place, PAGES, 1));
	ASSERT_EQ(sizeof(frame), pread(pagemap, frame, sizeof(frame),
				       (uintptr_t)place / PAGE_SIZE * sizeof(*frame)));
	/* Lists the pages, which may wait in a CPU's batch: only listed pages can be idle. */
	ASSERT_EQ(0, hydra_write_file("/proc/sys/vm/drop_caches", "1"));
	for (int node = 0; node <= self->last; node++) {
		for (size_t page = 0; page < PAGES; page++) {
			frame[page] &= (1UL << 55) - 1;
			word = 1UL << frame[page] % 64;
			ASSERT_EQ(sizeof(word), pwrite(bitmap, &word, sizeof(word),
						       frame[page] / 64 * sizeof(word)));
		}
		hydra_empty_tlbs();
		hydra_run(node, read_every_second, NULL);
		for (size_t page = 0; page < PAGES; page++) {
			ASSERT_EQ(sizeof(word), pread(bitmap, &word, sizeof(word),
						      frame[page] / 64 * sizeof(word)));
			if (page % 2 == 0)
				EXPECT_EQ(0, word >> frame[page] % 64 & 1)
					TH_LOG("page %zu, used by node %d, is idle", page, node);
		}
	}
	close(bitmap);
	close(pagemap);
}

/* A ring of io_uring with one entry, by which the kernel reads into registered buffers */
struct ring {
	int fd;
	char *submit, *complete;
	struct io_uring_sqe *entry;
	struct io_uring_params params;
};

static bool ring_begin(struct ring *r, const struct iovec *buffers, unsigned int count)
{
	const struct io_uring_params *p = &r->params;

	r->submit = mmap(NULL, p->sq_off.array + p->sq_entries * sizeof(unsigned int),
			 PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	r->complete = mmap(NULL, p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe),
			   PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_CQ_RING);
	r->entry = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
			IORING_OFF_SQES);
	return r->submit != MAP_FAILED && r->complete != MAP_FAILED && r->entry != MAP_FAILED &&
	       !syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, buffers, count);
}

/* Read 8 bytes from a pipe into a registered buffer. Return: the result. */
static int ring_read(struct ring *r, int fd, void *to, int buffer)
{
	atomic_uint *tail = (atomic_uint *)(r->submit + r->params.sq_off.tail);
	atomic_uint *head = (atomic_uint *)(r->complete + r->params.cq_off.head);
	unsigned int mask = *(unsigned int *)(r->complete + r->params.cq_off.ring_mask);
	struct io_uring_cqe *done = (void *)(r->complete + r->params.cq_off.cqes);
	int result;

	*r->entry = (struct io_uring_sqe){
		.opcode = IORING_OP_READ_FIXED, .fd = fd, .addr = (uintptr_t)to, .len = 8,
		.buf_index = buffer,
	};
	*(unsigned int *)(r->submit + r->params.sq_off.array) = 0;
	atomic_fetch_add(tail, 1);
	if (syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -1;
	result = done[atomic_load(head) & mask].res;
	atomic_fetch_add(head, 1);
	return result;
}

/*
 * Pages into which the kernel reads stay with the parent over fork(), whichever node writes
 * to them first; the child gets copies.
 */
TEST_F_TIMEOUT(reports, registered_buffers_stay_with_the_parent, TIMEOUT_S)
{
	struct iovec buffers[PAGES];
	struct ring ring = {};
	int data[2], go[2];

	place = hydra_map(self->area, PAGES);
	for (int page = 0; page < PAGES; page++)
		buffers[page] = (struct iovec){ place + page * PAGE_SIZE, PAGE_SIZE };
	write_on(0, place, PAGES, 1);
	ring.fd = syscall(SYS_io_uring_setup, 1, &ring.params);
	if (ring.fd < 0)
		SKIP(return, "no io_uring (CONFIG_IO_URING)");
	ASSERT_TRUE(ring_begin(&ring, buffers, PAGES));
	ASSERT_EQ(0, pipe(data));
	for (int node = 0; node <= self->last; node++) {
		pid_t child;
		char c;

		write_on(0, place, PAGES, 1);
		EXPECT_EQ(0, wrong_words(place, PAGES, 1));
		ASSERT_EQ(0, pipe(go));
		child = fork();
		if (!child) {
			size_t wrong = 0;

			if (read(go[0], &c, 1) != 1)
				_exit(111);
			for (size_t page = 0; page < PAGES; page++)
				wrong += WORD(place, page) != 1 + page;
			_exit(wrong);
		}
		write_on(node, place + 2048, PAGES, 50);
		for (uint64_t page = 0; page < PAGES; page++) {
			uint64_t value = 1000 * node + page;

			ASSERT_EQ(sizeof(value), write(data[1], &value, sizeof(value)));
			EXPECT_EQ(sizeof(value), ring_read(&ring, data[0], buffers[page].iov_base,
							   page));
		}
		EXPECT_EQ(0, wrong_words(place, PAGES, 1000 * node));
		EXPECT_EQ(0, wrong_words(place + 2048, PAGES, 50));
		ASSERT_EQ(1, write(go[1], "g", 1));
		EXPECT_EQ(0, hydra_wait_child(child));
		close(go[0]);
		close(go[1]);
	}
	close(ring.fd);
}

static bool want_huge(char *area)
{
	return !access("/sys/kernel/mm/transparent_hugepage", F_OK) &&
	       !prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0) && hydra_map(area, TABLE_PAGES) == area &&
	       !madvise(area, TABLE_SIZE, MADV_HUGEPAGE);
}

#define NEED_HUGE(area) do {								\
	if (!want_huge(area))								\
		SKIP(return, "no transparent huge pages (CONFIG_TRANSPARENT_HUGEPAGE)");\
} while (0)

/* All nodes have read the huge zero page. One writes, and all see it, in that page alone. */
TEST_F(reports, page_of_the_huge_zero_page_is_written)
{
	for (int node = 0; node <= self->last; node++) {
		NEED_HUGE(self->area);
		for (size_t page = 0; page < TABLE_PAGES; page += 100)
			EXPECT_EQ(0, wrong_words(self->area + page * PAGE_SIZE, 1, 0));
		write_on(node, self->area + 100 * PAGE_SIZE, 1, 9);
		for (size_t page = 0; page < TABLE_PAGES; page += 100)
			EXPECT_EQ(0, wrong_words(self->area + page * PAGE_SIZE, 1,
						 page == 100 ? 9 : 0));
		ASSERT_EQ(0, munmap(self->area, TABLE_SIZE));
	}
}

/*
 * A huge page is common to parent and child. The child splits its mapping; the parent's nodes
 * write. Neither sees what the other writes.
 */
TEST_F(reports, huge_page_split_by_a_child_is_private)
{
	const size_t far = TABLE_PAGES / 2;
	int to_child[2], to_parent[2];
	pid_t child;
	char c;

	NEED_HUGE(self->area);
	ASSERT_EQ(0, pipe(to_child));
	ASSERT_EQ(0, pipe(to_parent));
	write_on(0, self->area, TABLE_PAGES, 1);
	EXPECT_EQ(0, wrong_words(self->area, TABLE_PAGES, 1));
	child = fork();
	if (!child) {
		size_t wrong = 0;

		if (mprotect(self->area, PAGE_SIZE, PROT_READ) ||
		    munmap(self->area + PAGE_SIZE, PAGE_SIZE))
			_exit(111);
		WORD(self->area, far) = 0;
		if (write(to_parent[1], "w", 1) != 1 || read(to_child[0], &c, 1) != 1)
			_exit(112);
		for (size_t page = 2; page < TABLE_PAGES; page++)
			wrong += WORD(self->area, page) != (page == far ? 0 : 1 + page);
		_exit(wrong ? 113 : 0);
	}
	ASSERT_EQ(1, read(to_parent[0], &c, 1));
	EXPECT_EQ(0, wrong_words(self->area, TABLE_PAGES, 1));
	for (int node = 0; node <= self->last; node++)
		write_on(node, self->area + node * 16 * PAGE_SIZE, 16, 1000 + node);
	for (int node = 0; node <= self->last; node++)
		EXPECT_EQ(0, wrong_words(self->area + node * 16 * PAGE_SIZE, 16, 1000 + node));
	ASSERT_EQ(1, write(to_child[1], "g", 1));
	EXPECT_EQ(0, hydra_wait_child(child));
}

#define KEPT	(TABLE_PAGES - 64)	/* pages that are not given back */

static int splices[2];

/* The last node lets the kernel take pages for a pipe; the others write words of their own. */
static void write_or_splice(struct member *m)
{
	for (size_t page = m->node; page < KEPT; page += 7) {
		volatile uint64_t *own = &WORD(place, page) + m->node;
		struct iovec part = { place + page * PAGE_SIZE, sizeof(uint64_t) };
		uint64_t value;

		if (m->node == hydra_nodes() - 1) {
			if (vmsplice(splices[1], &part, 1, 0) != sizeof(value) ||
			    read(splices[0], &value, sizeof(value)) != sizeof(value) ||
			    value != 5 + page)
				atomic_fetch_add(&m->mistakes, 1);
			continue;
		}
		if (*own != m->own[page])
			atomic_fetch_add(&m->mistakes, 1);
		*own = ++m->own[page];
	}
}

/* An allocator gives a part of a huge page back, and makes it huge again, under writers. */
TEST_F_TIMEOUT(reports, collapse_loses_no_write, TIMEOUT_S)
{
	int collapsed = 0;

	NEED_HUGE(self->area);
	place = self->area;
	ASSERT_EQ(0, pipe(splices));
	write_on(0, place, KEPT, 5);
	crowd_begin(write_or_splice);
	for (int i = 0; i < 100 && collapsed < ROUNDS; i++) {
		ASSERT_EQ(0, madvise(place + KEPT * PAGE_SIZE, 64 * PAGE_SIZE, MADV_DONTNEED));
		collapsed += !madvise(place, TABLE_SIZE, MADV_COLLAPSE);
		crowd_await();
	}
	EXPECT_EQ(0, crowd_end());
	/* Linux refuses while a page is taken for a pipe. */
	EXPECT_LT(0, collapsed);
	EXPECT_EQ(0, wrong_words(place, KEPT, 5));
}

HYDRA_HARNESS_MAIN
