// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* residency: where is the memory of every cgroup, and which nodes and CPUs may it use?
 *
 * Hook:  iterator cgroup (Linux 6.1), which is run for each cgroup while the agent reads from it. It holds the
 *        kernel's cgroup mutex meanwhile. Nothing is written to its stream, for one that has been full cannot go on.
 * Maps:  residency_head  which counters are wanted, by the agent; how many cgroups there were
 *        residency_rows  a row for each cgroup. Those that find none left are only counted.
 *        Both are mapped by the agent, which sets the counts to 0 before each walk.
 * Row:   id; which parts were found (RESIDENCY_MEMORY, RESIDENCY_CPUSET); masks of nodes and of CPUs; then, each with a
 *        word for every node, in bytes: the columns, file without shmem, and the sum of the kernel's columns. How long
 *        each part is, and where in the kernel it is found, the agent reads from BTF.
 * Cost:  some 10 reads of kernel memory for each cgroup, and 2 for each of its nodes.
 */
#define RESIDENCY_MEMORY 1
#define RESIDENCY_CPUSET 2
#define RESIDENCY_MOST_COLUMNS 16
#define RESIDENCY_MOST_COUNTERS 128
#define RESIDENCY_MOST_NODES 128
#define RESIDENCY_FILE 1 /* column */
#define RESIDENCY_SHMEM 2 /* column, a part of RESIDENCY_FILE */

struct residency_column {
	u64 counter; /* which of a node's */
	u64 unit; /* bytes that 1 stands for */
	u64 used; /* all bits, or 0: it counts as 0 in the last two parts of a row */
};
struct residency_head {
	u64 walked; /* cgroups */
	u64 failed; /* reads of kernel memory */
	struct residency_column columns[RESIDENCY_MOST_COLUMNS];
	u64 counters[RESIDENCY_MOST_COUNTERS]; /* of the node at hand */
	u64 nodes[RESIDENCY_MOST_NODES]; /* pointers, of the cgroup at hand */
};
BPF_F_TABLE("array", u32, struct residency_head, residency_head, 1, BPF_F_MMAPABLE);

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

static __always_inline u64 residency_copy(u64 to, u64 size, u64 from)
{
	return bpf_probe_read_kernel((void *)to, size, (void *)from) ? 1 : 0;
}

/* The controller's part of the cgroup, or 0: some are kept without files, for another controller that needs them. */
static __always_inline u64 residency_controller(u64 cgroup, u64 pointer)
{
	u64 css = residency_pointer(cgroup + pointer);
	u32 flags = 0;

	if (css)
		bpf_probe_read_kernel(&flags, sizeof(flags), (void *)(css + PROBE_CONSTANT(RESIDENCY_FLAGS)));
	return flags & PROBE_CONSTANT(RESIDENCY_VISIBLE) ? css : 0;
}

static __always_inline void residency_columns(struct residency_head *head, u64 to)
{
	u64 file = 0, kernel = 0;
	u64 column;

	for (column = 0; column < PROBE_CONSTANT(RESIDENCY_COLUMNS) && column < RESIDENCY_MOST_COLUMNS; column++) {
		struct residency_column *of = &head->columns[column];
		u64 counter = of->counter;
		s64 number;
		u64 size;

		if (counter >= RESIDENCY_MOST_COUNTERS)
			return;
		/* Those of several CPUs are added one after the other, so a sum may be below 0 for a moment. */
		number = head->counters[counter];
		size = (number & ~(number >> 63)) * of->unit;
		*(u64 *)to = size;
		to += 8 * PROBE_CONSTANT(RESIDENCY_NODES);
		if (column == RESIDENCY_FILE)
			file = size;
		else if (column == RESIDENCY_SHMEM)
			file -= (size & of->used) < file ? size & of->used : file;
		else if (column >= PROBE_CONSTANT(RESIDENCY_FIRST_OF_KERNEL))
			kernel += size & of->used;
	}
	*(u64 *)to = file;
	*(u64 *)(to + 8 * PROBE_CONSTANT(RESIDENCY_NODES)) = kernel;
}

static __always_inline u64 residency_memory(struct residency_head *head, u64 row, u64 memory)
{
	u64 failed = residency_copy((u64)head->nodes, 8 * PROBE_CONSTANT(RESIDENCY_NODES),
				    memory + PROBE_CONSTANT(RESIDENCY_OF_NODES));
	u64 node;

	for (node = 0; node < PROBE_CONSTANT(RESIDENCY_NODES) && node < RESIDENCY_MOST_NODES; node++) {
		u64 of_node = head->nodes[node];
		u64 counters = of_node + PROBE_CONSTANT(RESIDENCY_COUNTERS);

		/* A machine may have node 2 and no node 1. */
		if (!of_node)
			continue;
		if (PROBE_CONSTANT(RESIDENCY_COUNTERS_BY_POINTER))
			counters = residency_pointer(counters);
		failed |= residency_copy((u64)head->counters, PROBE_CONSTANT(RESIDENCY_COUNTERS_SIZE),
					 counters + PROBE_CONSTANT(RESIDENCY_WORDS));
		residency_columns(head, row + PROBE_CONSTANT(RESIDENCY_COLUMNS_AT) + 8 * node);
	}
	return failed;
}

static __always_inline u64 residency_cpuset(u64 row, u64 cpuset)
{
	u64 cpus = cpuset + PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS);
	u64 nodes = cpuset + PROBE_CONSTANT(RESIDENCY_ALLOWED_NODES);

	if (PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS_BY_POINTER))
		cpus = residency_pointer(cpus);
	return residency_copy(row + sizeof(struct residency_row), PROBE_CONSTANT(RESIDENCY_ALLOWED_NODES_SIZE), nodes) |
	       residency_copy(row + PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS_AT), PROBE_CONSTANT(RESIDENCY_ALLOWED_CPUS_SIZE),
			      cpus);
}

/* `context` is struct bpf_iter__cgroup: its second member is NULL when the walk has ended. */
int residency_at_cgroup(u64 *context)
{
	u64 cgroup = context[1];
	int number = 0;
	struct residency_head *head = residency_head.lookup(&number);
	struct residency_row *row;
	u64 memory, cpuset = 0;

	if (!cgroup || !head)
		return 0;
	number = head->walked;
	head->walked += 1;
	row = residency_rows.lookup(&number);
	if (!row)
		return 0;
	row->id = residency_pointer(residency_pointer(cgroup + PROBE_CONSTANT(RESIDENCY_DIRECTORY)) +
				    PROBE_CONSTANT(RESIDENCY_ID));
	row->found = 0;
	memory = residency_controller(cgroup, PROBE_CONSTANT(RESIDENCY_OF_MEMORY));
	if (memory) {
		row->found |= RESIDENCY_MEMORY;
		head->failed += residency_memory(head, (u64)row, memory);
	}
	if (PROBE_CONSTANT(RESIDENCY_HAS_CPUSET))
		cpuset = residency_controller(cgroup, PROBE_CONSTANT(RESIDENCY_OF_CPUSET));
	if (cpuset) {
		row->found |= RESIDENCY_CPUSET;
		head->failed += residency_cpuset((u64)row, cpuset);
	}
	return 0;
}
