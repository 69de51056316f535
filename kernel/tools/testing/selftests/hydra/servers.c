// SPDX-License-Identifier: GPL-2.0-only
/*
 * A thread that serves a file system or a block device, for its own process or for the
 * machine, reaches user mode whatever waits for its answer: on its way there it waits for no
 * lock without a bound. Each test makes a thread hold a lock until the server has answered, and
 * gives the server a reason to split the address space before.
 *
 * If the kernel is wrong, threads wait for ever, and no signal ends them. So they run in a child
 * process, and the test takes the file system or the device away after TIMEOUT_S seconds.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/nbd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "hydra_util.h"

#define TIMEOUT_S	20	/* seconds */

/* What the test and its children tell each other */
static struct shared {
	atomic_bool armed;	/* the server handles the next request with care */
	atomic_bool asked;	/* the server has got it, and a thread waits for the answer */
	atomic_bool go;		/* the server may go on */
	atomic_bool arrived;	/* the server has reached user mode on node 1 */
} *shared;

static cpu_set_t node_1;

static bool wait_for(atomic_bool *what)
{
	for (int i = 0; !atomic_load(what) && i < TIMEOUT_S * 100; i++)
		usleep(10000);
	return atomic_load(what);
}

/* Return: exit status of a child, as hydra_wait_child(); -1 if it does not end. */
static int wait_for_end(pid_t pid)
{
	siginfo_t info;

	for (int i = 0; i < TIMEOUT_S * 100; i++) {
		info.si_pid = 0;
		if (!waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid)
			return hydra_wait_child(pid);
		usleep(10000);
	}
	return -1;
}

/* The state of a thread, as in /proc/PID/stat. Calls no malloc(). */
static char state_of(pid_t tid)
{
	char path[64], text[512], *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	if (hydra_read_file(path, text, sizeof(text)) < 0)
		return '?';
	at = strrchr(text, ')');
	return at ? at[2] : '?';
}

/* Does a thread sleep without a signal that could wake it, now and in the next ticks? */
static bool wait_until_stuck(pid_t tid)
{
	int stuck = 0;

	for (int i = 0; stuck < 10 && i < TIMEOUT_S * 100; i++) {
		stuck = state_of(tid) == 'D' ? stuck + 1 : 0;
		usleep(10000);
	}
	return stuck == 10;
}

static void begin(struct __test_metadata *_metadata)
{
	int cpus[HYDRA_MAX_CPUS];

	HYDRA_BEGIN();
	shared = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	hydra_node_cpus(1, cpus);
	CPU_ZERO(&node_1);
	CPU_SET(cpus[0], &node_1);
}

/* The server comes to a second node, and returns to user mode there. */
static void go_to_node_1(void)
{
	if (!sched_setaffinity(0, sizeof(node_1), &node_1))
		atomic_store(&shared->arrived, true);
}

/* A file system of one file, its root, with one page. The protocol is that of /dev/fuse. */

static int fuse;
static char place[] = "/tmp/hydra-servers-XXXXXX";
static char content[PAGE_SIZE];

static void fuse_reply(const struct fuse_in_header *in, int error, void *data, size_t size)
{
	struct fuse_out_header out = { sizeof(out) + size, error, in->unique };
	struct iovec iov[] = { { &out, sizeof(out) }, { data, size } };

	if (writev(fuse, iov, 2) < 0 && errno != ENOENT && errno != ENODEV)
		abort();
}

static void fuse_reply_attr(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = {
		.attr_valid = 1,
		.attr = { .ino = 1, .size = PAGE_SIZE, .mode = S_IFREG | 0600, .nlink = 1 },
	};

	fuse_reply(in, 0, &out, sizeof(out));
}

static void fuse_answer(const struct fuse_in_header *in, void (*before_write)(void))
{
	const void *argument = in + 1;

	switch (in->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out out = {
			.major = FUSE_KERNEL_VERSION,
			.minor = FUSE_KERNEL_MINOR_VERSION,
			.max_write = PAGE_SIZE,
		};

		return fuse_reply(in, 0, &out, sizeof(out));
	}
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		return fuse_reply_attr(in);
	case FUSE_OPEN: {
		struct fuse_open_out out = {};

		return fuse_reply(in, 0, &out, sizeof(out));
	}
	case FUSE_READ: {
		const struct fuse_read_in *r = argument;
		size_t size = r->offset < PAGE_SIZE ? PAGE_SIZE - r->offset : 0;

		return fuse_reply(in, 0, content + r->offset % PAGE_SIZE,
				  size < r->size ? size : r->size);
	}
	case FUSE_WRITE: {
		const struct fuse_write_in *w = argument;
		struct fuse_write_out out = { .size = w->size };

		if (atomic_exchange(&shared->armed, false))
			before_write();
		return fuse_reply(in, 0, &out, sizeof(out));
	}
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
		return;
	}
	fuse_reply(in, -ENOSYS, NULL, 0);
}

static void *fuse_serve(void *before_write)
{
	static char request[64 * 1024] __attribute__((aligned(8)));

	while (read(fuse, request, sizeof(request)) >= 0 || errno == EINTR || errno == EAGAIN)
		fuse_answer((void *)request, before_write);
	return NULL;
}

static atomic_bool visited;

static void *sit_on_node_1(void *arg)
{
	if (sched_setaffinity(0, sizeof(node_1), &node_1))
		abort();
	atomic_store(&visited, true);
	for (;;)
		pause();
	return NULL;
}

/*
 * A child process, whose main thread uses the file system that another thread serves.
 *
 *	the main thread                         the server
 *	writes to the mapped page
 *	sync_file_range(): the page is
 *	being written back
 *	                                        gets the write request: before_write()
 *	writes to the page again: waits for
 *	the answer, and holds the VMA
 *	                                        answers
 *
 * @split: threads run on two nodes before
 *
 * Return: the exit status, 0 if the process is split at the end.
 */
static int use_own_file(const char *policy, void (*before_write)(void), bool split)
{
	pthread_t server, other;
	volatile char *page;
	struct stat stat;
	int file;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hydra_pin_to_node(0);
	if (hydra_write_policy(getpid(), policy) ||
	    pthread_create(&server, NULL, fuse_serve, before_write) ||
	    (split && pthread_create(&other, NULL, sit_on_node_1, NULL)))
		return 1;
	while (split && (!atomic_load(&visited) || !hydra_is_split()))
		usleep(1000);
	file = open(place, O_RDWR | O_CLOEXEC);
	/* The kernel asks for the size of a root only if a program does. */
	if (fstat(file, &stat) || stat.st_size != PAGE_SIZE)
		return 5;
	page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (page == MAP_FAILED)
		return 2;
	page[0] = 1;
	atomic_store(&shared->armed, true);
	if (sync_file_range(file, 0, PAGE_SIZE, SYNC_FILE_RANGE_WRITE))
		return 3;
	while (!atomic_load(&shared->asked))
		;
	page[0] = 2;
	/* At exit the server could not answer any more. */
	munmap((void *)page, PAGE_SIZE);
	close(file);
	return hydra_is_split() ? 0 : 4;
}

/* The server has got the request, and the main thread waits for the answer. */
static void let_main_thread_wait(void)
{
	atomic_store(&shared->asked, true);
	wait_until_stuck(getpid());
}

static void arrive_before_answer(void)
{
	let_main_thread_wait();
	go_to_node_1();
}

static void answer_when_told(void)
{
	let_main_thread_wait();
	atomic_store(&shared->arrived, true);
	while (!atomic_load(&shared->go))
		;
}

FIXTURE(own_file) {
};

FIXTURE_SETUP(own_file)
{
	char options[64];
	int fd;

	begin(_metadata);
	fd = mkstemp(place);
	ASSERT_LE(0, fd);
	close(fd);
	fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fuse)
		TH_LOG("needs CONFIG_FUSE_FS");
	snprintf(options, sizeof(options), "fd=%d,rootmode=100600,user_id=0,group_id=0", fuse);
	ASSERT_EQ(0, mount("hydra", place, "fuse", MS_NODEV | MS_NOSUID, options));
}

FIXTURE_TEARDOWN(own_file)
{
	/* Ends all requests. */
	umount2(place, MNT_FORCE | MNT_DETACH);
	close(fuse);
	unlink(place);
}

static void split_on_the_way(struct __test_metadata *_metadata, const char *policy)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(use_own_file(policy, arrive_before_answer, false));
	ASSERT_LT(0, child);
	EXPECT_TRUE(wait_for(&shared->arrived))
		TH_LOG("%s: the server does not reach user mode", policy);
	if (!atomic_load(&shared->arrived))
		umount2(place, MNT_FORCE | MNT_DETACH);
	status = wait_for_end(child);
	EXPECT_EQ(0, status);
	if (status < 0)
		kill(child, SIGKILL);
}

TEST_F_TIMEOUT(own_file, server_splits_hydra, 90)
{
	split_on_the_way(_metadata, "hydra");
}

TEST_F_TIMEOUT(own_file, server_splits_mitosis, 90)
{
	split_on_the_way(_metadata, "mitosis");
}

/* A tool that has to wait for a fault can be killed: the victim goes on. */
static void kill_tool(struct __test_metadata *_metadata, void (*act)(pid_t victim))
{
	pid_t tool, victim = fork();
	int status;

	if (!victim)
		/* The tool has not changed the settings: still split */
		_exit(use_own_file("hydra", answer_when_told, true));
	ASSERT_LT(0, victim);
	EXPECT_TRUE(wait_for(&shared->arrived));
	tool = fork();
	if (!tool) {
		act(victim);
		_exit(0);
	}
	ASSERT_LT(0, tool);
	EXPECT_TRUE(wait_until_stuck(tool))
		TH_LOG("the tool does not have to wait: the test says nothing");
	kill(tool, SIGKILL);
	status = wait_for_end(tool);
	EXPECT_EQ(128 + SIGKILL, status)
		TH_LOG("the tool cannot be killed");
	atomic_store(&shared->go, true);
	if (status < 0)
		hydra_wait_child(tool);
	EXPECT_EQ(0, wait_for_end(victim));
}

static void switch_off(pid_t victim)
{
	hydra_write_policy(victim, "linux");
}

static void check(pid_t victim)
{
	hydra_consistent(victim);
}

TEST_F_TIMEOUT(own_file, tool_that_switches_off_can_be_killed, 90)
{
	kill_tool(_metadata, switch_off);
}

TEST_F_TIMEOUT(own_file, tool_that_checks_can_be_killed, 90)
{
	kill_tool(_metadata, check);
}

/* A block device that a thread serves, with a hardware queue for each CPU: nbd. */

#define DEVICE		"/dev/nbd0"
#define BLOCKS		256
#define ASKED_BLOCK	128
#define CPUS		"/sys/devices/system/cpu/"

static int queues, (*sockets)[2];

/* Runs the device until it is killed. */
static void nbd_run(void)
{
	int device = open(DEVICE, O_RDWR | O_CLOEXEC);

	if (device < 0 || ioctl(device, NBD_SET_BLKSIZE, PAGE_SIZE) ||
	    ioctl(device, NBD_SET_SIZE_BLOCKS, BLOCKS) ||
	    ioctl(device, NBD_SET_FLAGS, NBD_FLAG_HAS_FLAGS | NBD_FLAG_CAN_MULTI_CONN))
		_exit(1);
	for (int i = 0; i < queues; i++)
		if (ioctl(device, NBD_SET_SOCK, sockets[i][0]))
			_exit(2);
	ioctl(device, NBD_DO_IT);
	ioctl(device, NBD_CLEAR_SOCK);
	_exit(0);
}

static void nbd_answer(int socket)
{
	static char data[BLOCKS * PAGE_SIZE];
	struct nbd_request r;
	struct nbd_reply reply = { .magic = htonl(NBD_REPLY_MAGIC) };
	size_t size;

	if (recv(socket, &r, sizeof(r), MSG_WAITALL) != sizeof(r))
		_exit(0);
	size = ntohl(r.len);
	if (be64toh(r.from) == ASKED_BLOCK * PAGE_SIZE &&
	    atomic_exchange(&shared->armed, false)) {
		atomic_store(&shared->asked, true);
		while (!atomic_load(&shared->go))
			;
		go_to_node_1();
	}
	memcpy(&reply.handle, &r.handle, sizeof(reply.handle));
	if (ntohl(r.type) != NBD_CMD_READ || size > sizeof(data))
		reply.error = htonl(EINVAL);
	if (write(socket, &reply, sizeof(reply)) != sizeof(reply))
		_exit(0);
	for (size_t sent = 0; !reply.error && sent < size;) {
		ssize_t n = write(socket, data + sent, size - sent);

		if (n <= 0)
			_exit(0);
		sent += n;
	}
}

static void *nbd_serve(void *arg)
{
	struct pollfd *polls = calloc(queues, sizeof(*polls));

	for (int i = 0; i < queues; i++)
		polls[i] = (struct pollfd){ .fd = sockets[i][1], .events = POLLIN };
	while (poll(polls, queues, -1) >= 0)
		for (int i = 0; i < queues; i++)
			if (polls[i].revents)
				nbd_answer(sockets[i][1]);
	return NULL;
}

/* A process of two threads, of which one serves the device */
static void nbd_server(void)
{
	pthread_t server;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	hydra_pin_to_node(0);
	if (hydra_write_policy(getpid(), "hydra") ||
	    pthread_create(&server, NULL, nbd_serve, NULL))
		_exit(1);
	pthread_join(server, NULL);
	_exit(0);
}

static pid_t run(void (*fn)(void))
{
	pid_t pid = fork();

	if (!pid) {
		fn();
		_exit(0);
	}
	return pid;
}

static int last_cpu;

/* Asks for a block from the CPU that goes offline, through its queue. */
static void nbd_ask(void)
{
	int device;
	void *page = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	hydra_pin_to_cpu(last_cpu);
	device = open(DEVICE, O_RDONLY | O_DIRECT | O_CLOEXEC);
	atomic_store(&shared->armed, true);
	_exit(pread(device, page, PAGE_SIZE, ASKED_BLOCK * PAGE_SIZE) != PAGE_SIZE);
}

static int set_online(bool online)
{
	char dir[64];

	snprintf(dir, sizeof(dir), CPUS "cpu%d/", last_cpu);
	return hydra_write_number(dir, "online", "%d", online);
}

static void go_offline(void)
{
	_exit(set_online(false) ? 1 : 0);
}

static void wait_for_device(struct __test_metadata *_metadata)
{
	for (int i = 0; hydra_number("/sys/block/nbd0/size", NULL) <= 0 && i < TIMEOUT_S * 100; i++)
		usleep(10000);
	ASSERT_LT(0, hydra_number("/sys/block/nbd0/size", NULL));
}

FIXTURE(device) {
};

FIXTURE_SETUP(device)
{
	begin(_metadata);
}

FIXTURE_TEARDOWN(device)
{
}

/*
 *	a CPU goes offline                      the server
 *	                                        gets a request of this CPU
 *	waits until all requests of its queue
 *	are answered; no CPU may be waited for
 *	meanwhile (cpus_read_lock())
 *	                                        comes to a second node: the process has to
 *	                                        be split, which may need cpus_read_lock()
 *	                                        answers
 */
TEST_F_TIMEOUT(device, cpu_goes_offline_while_server_splits, 120)
{
	int cpus[HYDRA_MAX_CPUS], status;
	pid_t device, server, asker, offliner;

	if (access(DEVICE, F_OK) || access(CPUS "cpu1/online", F_OK))
		SKIP(return, "needs " DEVICE " (CONFIG_BLK_DEV_NBD) and CPUs that can go offline");
	last_cpu = cpus[hydra_node_cpus(hydra_nodes() - 1, cpus) - 1];
	queues = sysconf(_SC_NPROCESSORS_CONF);
	sockets = calloc(queues, sizeof(*sockets));
	for (int i = 0; i < queues; i++)
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]));
	server = run(nbd_server);
	device = run(nbd_run);
	wait_for_device(_metadata);
	asker = run(nbd_ask);
	EXPECT_TRUE(wait_for(&shared->asked));
	offliner = run(go_offline);
	EXPECT_TRUE(wait_until_stuck(offliner))
		TH_LOG("the CPU does not wait for the request: the test says nothing");
	atomic_store(&shared->go, true);
	EXPECT_TRUE(wait_for(&shared->arrived))
		TH_LOG("the server does not reach user mode");
	if (!atomic_load(&shared->arrived))
		kill(device, SIGKILL);
	status = wait_for_end(offliner);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, wait_for_end(asker));
	kill(device, SIGKILL);
	wait_for_end(device);
	kill(server, SIGKILL);
	wait_for_end(server);
	EXPECT_EQ(0, set_online(true));
}

HYDRA_HARNESS_MAIN
