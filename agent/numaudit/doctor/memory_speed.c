/* SPDX-License-Identifier: Apache-2.0
 *
 * How long does a load take, and how many bytes a second can be read, from some CPUs to one NUMA node's memory?
 *
 *   memory_speed CPUS NODE BYTES       CPUS as in 0-3,8
 *
 * Takes orders, a line each, and answers each with one line of JSON:
 *   latency    one CPU follows a chain of pointers that visits every cache line of the memory once, in random order:
 *              each load waits for the one before, and no prefetcher knows the next
 *   bandwidth  every CPU reads a slice of the memory from end to end
 *   evidence   on which nodes the pages are, and how many bytes of them are in huge pages
 * The first line says that the memory is there. What fails ends the program with a message on stderr.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE (2UL << 20)
#define MOST_NODES 1024
#define MOST_THREADS 4096
#define BITS_OF_A_WORD (8 * sizeof(unsigned long))
#define PAGES_AT_ONCE 4096
#define LOADS (1UL << 19)
/* linux/mempolicy.h, so that libnuma's headers are not needed */
#define POLICY_BIND 2
#define FLAG_STRICT 1

static char *memory;
static size_t size, line_size;
static int cpus[MOST_THREADS], threads;

static void fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void run_on(int cpu)
{
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	size_t bytes = CPU_ALLOC_SIZE(cpu + 1);

	CPU_ZERO_S(bytes, set);
	CPU_SET_S(cpu, bytes, set);
	if (sched_setaffinity(0, bytes, set))
		fail("cannot run on the CPU");
	CPU_FREE(set);
}

static unsigned int node_here(void)
{
	unsigned int cpu, node;

	if (syscall(SYS_getcpu, &cpu, &node, NULL))
		fail("getcpu");
	return node;
}

static void read_cpus(const char *list)
{
	char *end;

	do {
		long first = strtol(list, &end, 10), last = first;

		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (; first <= last && threads < MOST_THREADS; first++)
			cpus[threads++] = first;
		list = end + 1;
	} while (*end == ',');
}

static void take_memory(int node)
{
	unsigned long mask[MOST_NODES / BITS_OF_A_WORD] = {0};
	char *start = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (start == MAP_FAILED)
		fail("mmap");
	memory = (char *)(((uintptr_t)start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	mask[node / BITS_OF_A_WORD] = 1UL << (node % BITS_OF_A_WORD);
	if (syscall(SYS_mbind, memory, size, POLICY_BIND, mask, MOST_NODES, FLAG_STRICT))
		fail("cannot bind memory to the node");
	madvise(memory, size, MADV_HUGEPAGE); /* where there are none, the answer to "evidence" says so */
	memset(memory, 1, size);
}

/* A random cycle through all lines (S. Sattolo, 1986): line i holds the address of the next. */
static void make_chain(void)
{
	size_t lines = size / line_size;
	uint64_t random = 88172645463325252ULL;

#define NEXT(i) (*(void **)(memory + (i)*line_size))
	for (size_t i = 0; i < lines; i++)
		NEXT(i) = &NEXT(i);
	for (size_t i = lines - 1; i > 0; i--) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		size_t j = random % i;
		void *other = NEXT(j);

		NEXT(j) = NEXT(i);
		NEXT(i) = other;
	}
}

static void measure_latency(void)
{
	static void **here;
	double start;

	if (!here)
		here = (void **)memory;
	start = seconds();
	for (size_t i = 0; i < LOADS; i++)
		here = *here;
	printf("{\"ns\": %.4f, \"nodes\": [%u], \"end\": %lu}\n", (seconds() - start) * 1e9 / LOADS, node_here(),
	       (unsigned long)((char *)here - memory));
}

struct reader {
	pthread_t thread;
	pthread_barrier_t *barrier;
	const uint64_t *from;
	size_t words;
	uint64_t sum;
	double started, ended;
	unsigned int node;
	int cpu;
};

static void *read_slice(void *argument)
{
	struct reader *one = argument;
	uint64_t sum = 0;

	run_on(one->cpu);
	pthread_barrier_wait(one->barrier);
	one->started = seconds();
	for (size_t i = 0; i < one->words; i++)
		sum += one->from[i];
	one->ended = seconds();
	one->sum = sum;
	one->node = node_here();
	return NULL;
}

static void measure_bandwidth(void)
{
	static struct reader readers[MOST_THREADS];
	size_t words = size / sizeof(uint64_t) / threads;
	pthread_barrier_t barrier;
	uint64_t sum = 0;
	double started = 0, ended = 0;

	pthread_barrier_init(&barrier, NULL, threads);
	for (int i = 0; i < threads; i++) {
		readers[i] = (struct reader){
		    .barrier = &barrier, .from = (uint64_t *)memory + i * words, .words = words, .cpu = cpus[i]};
		errno = pthread_create(&readers[i].thread, NULL, read_slice, &readers[i]);
		if (errno)
			fail("cannot start a thread");
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(readers[i].thread, NULL);
		sum += readers[i].sum;
		started = !i || readers[i].started < started ? readers[i].started : started;
		ended = readers[i].ended > ended ? readers[i].ended : ended;
	}
	printf("{\"bytes_per_second\": %.0f, \"nodes\": [", words * sizeof(uint64_t) * threads / (ended - started));
	for (int i = 0; i < threads; i++)
		printf("%s%u", i ? ", " : "", readers[i].node);
	printf("], \"sum\": %lu}\n", (unsigned long)sum);
	pthread_barrier_destroy(&barrier);
}

static unsigned long huge_page_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char text[256];
	unsigned long kib = 0;

	while (file && fgets(text, sizeof text, file) && sscanf(text, "AnonHugePages: %lu", &kib) != 1)
		;
	if (file)
		fclose(file);
	return kib << 10;
}

/* The pages as the kernel finds them by move_pages(2) without a target; what is on no node is counted as elsewhere. */
static void show_evidence(void)
{
	static void *pages[PAGES_AT_ONCE];
	static int status[PAGES_AT_ONCE];
	static size_t counts[MOST_NODES];
	size_t page_size = sysconf(_SC_PAGESIZE), elsewhere = 0, all = size / page_size;

	memset(counts, 0, sizeof counts);
	for (size_t done = 0; done < all;) {
		size_t batch = all - done < PAGES_AT_ONCE ? all - done : PAGES_AT_ONCE;

		for (size_t i = 0; i < batch; i++)
			pages[i] = memory + (done + i) * page_size;
		if (syscall(SYS_move_pages, 0, batch, pages, NULL, status, 0))
			fail("move_pages");
		for (size_t i = 0; i < batch; i++)
			if (status[i] >= 0 && status[i] < MOST_NODES)
				counts[status[i]]++;
			else
				elsewhere++;
		done += batch;
	}
	printf("{\"pages\": {");
	for (int node = 0, first = 1; node < MOST_NODES; node++)
		if (counts[node]) {
			printf("%s\"%d\": %zu", first ? "" : ", ", node, counts[node]);
			first = 0;
		}
	printf("}, \"elsewhere\": %zu, \"huge_page_bytes\": %lu}\n", elsewhere, huge_page_bytes());
}

int main(int count, char **words)
{
	char order[32];
	long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);

	if (count != 4) {
		fprintf(stderr, "usage: memory_speed CPUS NODE BYTES\n");
		return 2;
	}
	line_size = line >= 16 ? line : 64;
	size = strtoull(words[3], NULL, 10) & ~(HUGE_PAGE - 1);
	read_cpus(words[1]);
	run_on(cpus[0]);
	take_memory(atoi(words[2]));
	make_chain();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("{\"bytes\": %zu, \"line\": %zu, \"threads\": %d}\n", size, line_size, threads);
	while (fgets(order, sizeof order, stdin))
		if (!strcmp(order, "latency\n"))
			measure_latency();
		else if (!strcmp(order, "bandwidth\n"))
			measure_bandwidth();
		else if (!strcmp(order, "evidence\n"))
			show_evidence();
	return 0;
}
