// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* residency: where is the memory of every cgroup, and which nodes and CPUs may it use?
 *
 * Hook:  iterator cgroup (Linux 6.1), which is run for each cgroup while the agent reads from it. It holds the
 *        kernel's cgroup mutex meanwhile. Nothing is written to its stream, for one that has been full cannot go on.
 * Map:   residency_rows  mapped by the agent, which sets its first word to 0 before each walk. Its row 0 then has the
 *                        number of cgroups and that of failed reads; a row for each cgroup follows. Cgroups that find
 *                        no row left are only counted.
 * Row:   id; which parts were found (RESIDENCY_MEMORY, RESIDENCY_CPUSET); masks of nodes and of CPUs; the counters
 *        of each node. How long each part is, and where in the kernel it is found, the agent reads from BTF.
 * Cost:  some 5 reads of kernel memory for each cgroup, and 3 for each of its nodes.
 */
#define RESIDENCY_MEMORY 1
#define RESIDENCY_CPUSET 2

struct residency_row {
	u64 id;
	u64 found;
};
BPF_F_TABLE("array", u32, struct residency_row, residency_rows, 1, BPF_F_MMAPABLE);

/* 0 = failed; what cannot be read is 0 as well. */
static __always_inline u64 residency_pointer(u64 at)
{
	u64 pointer = 0;

	bpf_probe_read_kernel(&pointer, sizeof(pointer), (void *)at);
	return pointer;
}

static __always_inline u64 residency_copy(u64 row, u64 to, u64 size, u64 from)
{
	return bpf_probe_read_kernel((void *)(row + to), size, (void *)from) ? 1 : 0;
}

static __always_inline u64 residency_counters(u64 row, u64 memory)
{
	u64 to = PROBE_CONSTANT(RESIDENCY_COUNTERS_AT);
	u64 failed = 0;
	u64 node;

	for (node = 0; node < PROBE_CONSTANT(RESIDENCY_NODES); node++) {
		u64 of_node = residency_pointer(memory + PROBE_CONSTANT(RESIDENCY_OF_NODES) + 8 * node);
		u64 counters = of_node + PROBE_CONSTANT(RESIDENCY_COUNTERS);

		if (PROBE_CONSTANT(RESIDENCY_COUNTERS_BY_POINTER))
			counters = residency_pointer(counters);
		counters += PROBE_CONSTANT(RESIDENCY_WORDS);
		/* A machine may have node 2 and no node 1. */
		if (of_node)
			failed |= residency_copy(row, to, PROBE_CONSTANT(RESIDENCY_COUNTERS_SIZE), counters);
		to += PROBE_CONSTANT(RESIDENCY_COUNTERS_SIZE);
	}
	return failed;
}

static __always_inline u64 residency_cpuset(u64 row, u64 cpuset)
{
	u64 cpus = cpuset + PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS);
	u64 nodes = cpuset + PROBE_CONSTANT(RESIDENCY_ALLOWED_NODES);

	if (PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS_BY_POINTER))
		cpus = residency_pointer(cpus);
	return residency_copy(row, sizeof(struct residency_row), PROBE_CONSTANT(RESIDENCY_ALLOWED_NODES_SIZE), nodes) |
	       residency_copy(row, PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS_AT),
			      PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS_SIZE), cpus);
}

/* `context` is struct bpf_iter__cgroup: its second member is NULL when the walk has ended. */
int residency_at_cgroup(u64 *context)
{
	u64 cgroup = context[1];
	int number = 0;
	struct residency_row *walked = residency_rows.lookup(&number);
	struct residency_row *row;
	u64 memory, cpuset = 0;

	if (!cgroup || !walked)
		return 0;
	walked->id += 1;
	number = walked->id;
	row = residency_rows.lookup(&number);
	if (!row)
		return 0;
	row->id = residency_pointer(residency_pointer(cgroup + PROBE_CONSTANT(RESIDENCY_DIRECTORY)) +
				    PROBE_CONSTANT(RESIDENCY_ID));
	row->found = 0;
	memory = residency_pointer(cgroup + PROBE_CONSTANT(RESIDENCY_OF_MEMORY));
	if (memory) {
		row->found |= RESIDENCY_MEMORY;
		walked->found += residency_counters((u64)row, memory);
	}
	if (PROBE_CONSTANT(RESIDENCY_HAS_CPUSET))
		cpuset = residency_pointer(cgroup + PROBE_CONSTANT(RESIDENCY_OF_CPUSET));
	if (cpuset) {
		row->found |= RESIDENCY_CPUSET;
		walked->found += residency_cpuset((u64)row, cpuset);
	}
	return 0;
}
