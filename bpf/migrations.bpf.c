// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* migrations: who moved pages, and why? Which tasks did NUMA balancing move to another node?
 *
 * Hook:  tracepoint migrate:mm_migrate_pages, in the context of the task that moves pages, which need not be
 *        their owner. It carries no nodes.
 *        kprobe or fentry on migrate_misplaced_folio (before Linux 6.7: _page), where one of them loads: NUMA
 *        balancing is about to move a page, and calls migrate_pages() for it within this function. The node that the
 *        page is on stands in its flags; where, and which argument is the node to go to, the agent reads from BTF.
 *        Tracepoints sched:sched_move_numa, sched_stick_numa and sched_swap_numa, in the context of the task that
 *        is to be moved. A swap moves a second task, whose cgroup the kernel does not give.
 * Maps:  migrations_pages   {initiator's cgroup, enum migrate_reason} -> base pages moved and not moved since load
 *        migrations_between {initiator's cgroup, from node, to node} -> base pages moved and not moved by NUMA
 *                           balancing since load
 *        migrations_begun   thread -> the nodes of the page that it is about to move
 *        migrations_tasks   {cgroup, event, from node, to node} -> how often since load
 * Cost:  one per-CPU hash lookup for each call of migrate_pages(), which moves many pages; for NUMA balancing, which
 *        moves one at a time, four more.
 */
#define MIGRATIONS_NODE_UNKNOWN 0xffff
#define MIGRATIONS_REASON_OF_TRIAL 255
#define MIGRATIONS_MOVED 0
#define MIGRATIONS_STUCK 1
#define MIGRATIONS_SWAPPED 2

struct migrations_pages_key {
	u64 cgroup_id;
	u64 reason;
};
struct migrations_pages_value {
	u64 succeeded;
	u64 failed;
};
BPF_PERCPU_HASH(migrations_pages, struct migrations_pages_key, struct migrations_pages_value, 1);

struct migrations_nodes {
	u16 from_node;
	u16 to_node;
};
struct migrations_between_key {
	u64 cgroup_id;
	u32 from_node;
	u32 to_node;
};
BPF_PERCPU_HASH(migrations_between, struct migrations_between_key, struct migrations_pages_value, 1);
BPF_TABLE("lru_hash", u64, struct migrations_nodes, migrations_begun, 1);

struct migrations_tasks_key {
	u64 cgroup_id;
	u32 event;
	u16 from_node;
	u16 to_node;
};
BPF_PERCPU_HASH(migrations_tasks, struct migrations_tasks_key, u64, 1);

static __always_inline void migrations_count_pages(u64 reason, u64 succeeded, u64 failed)
{
	struct migrations_pages_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.reason = reason,
	};
	struct migrations_pages_value added = {
		.succeeded = succeeded,
		.failed = failed,
	};
	struct migrations_pages_value *sum = migrations_pages.lookup(&key);

	if (sum) {
		sum->succeeded += added.succeeded;
		sum->failed += added.failed;
	} else if (migrations_pages.update(&key, &added)) {
		probe_drop();
	}
}

static __always_inline void migrations_count_between(u64 succeeded, u64 failed)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct migrations_nodes *nodes = migrations_begun.lookup(&thread);
	struct migrations_between_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
	};
	struct migrations_pages_value added = {
		.succeeded = succeeded,
		.failed = failed,
	};
	struct migrations_pages_value *sum;

	if (!nodes)
		return;
	key.from_node = nodes->from_node;
	key.to_node = nodes->to_node;
	migrations_begun.delete(&thread);
	sum = migrations_between.lookup(&key);
	if (sum) {
		sum->succeeded += added.succeeded;
		sum->failed += added.failed;
	} else if (migrations_between.update(&key, &added)) {
		probe_drop();
	}
}

static __always_inline void migrations_begin(u64 page, u64 to_node)
{
	u64 thread = bpf_get_current_pid_tgid();
	struct migrations_nodes nodes = {
		.from_node = MIGRATIONS_NODE_UNKNOWN,
		.to_node = to_node,
	};
	u64 bits = PROBE_CONSTANT(MIGRATIONS_NODE_BITS);
	void *where = (void *)(page + PROBE_CONSTANT(MIGRATIONS_FLAGS_OFFSET));
	u64 flags;

	/* Without node bits the kernel was built for one node, or does not say where they are. */
	if (bits && !bpf_probe_read_kernel(&flags, sizeof(flags), where))
		nodes.from_node = flags >> (64 - bits);
	migrations_begun.update(&thread, &nodes);
}

int migrations_at_kprobe(void *registers)
{
	migrations_begin(PROBE_LOAD(registers, MIGRATIONS_PAGE_REGISTER),
			 PROBE_LOAD(registers, MIGRATIONS_NODE_REGISTER));
	return 0;
}

int migrations_at_fentry(u64 *arguments)
{
	migrations_begin(arguments[0], PROBE_LOAD(arguments, MIGRATIONS_NODE_ARGUMENT));
	return 0;
}

int migrations_on_mm_migrate_pages(void *args)
{
	u64 succeeded = PROBE_LOAD(args, MIGRATIONS_SUCCEEDED);
	u64 failed = PROBE_LOAD(args, MIGRATIONS_FAILED);
	u64 reason = PROBE_LOAD(args, MIGRATIONS_REASON);

	migrations_count_pages(reason, succeeded, failed);
	if (reason == PROBE_CONSTANT(MIGRATIONS_NUMA_MISPLACED))
		migrations_count_between(succeeded, failed);
	return 0;
}

/* Loaded by benchmarks alone, which run it on purpose: so the cost of counting is measured on any host. */
int migrations_on_trial(void *ctx)
{
	migrations_count_pages(MIGRATIONS_REASON_OF_TRIAL, 0, 1);
	return 0;
}

static __always_inline void migrations_count_task(u32 event, int from_node, int to_node)
{
	struct migrations_tasks_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.event = event,
		.from_node = from_node,
		.to_node = to_node,
	};
	u64 *count = migrations_tasks.lookup(&key);
	u64 one = 1;

	if (count)
		*count += 1;
	else if (migrations_tasks.update(&key, &one))
		probe_drop();
}

int migrations_on_move(void *args)
{
	migrations_count_task(MIGRATIONS_MOVED, PROBE_LOAD(args, MIGRATIONS_MOVE_FROM),
			      PROBE_LOAD(args, MIGRATIONS_MOVE_TO));
	return 0;
}

int migrations_on_stick(void *args)
{
	migrations_count_task(MIGRATIONS_STUCK, PROBE_LOAD(args, MIGRATIONS_STICK_FROM),
			      PROBE_LOAD(args, MIGRATIONS_STICK_TO));
	return 0;
}

int migrations_on_swap(void *args)
{
	migrations_count_task(MIGRATIONS_SWAPPED, PROBE_LOAD(args, MIGRATIONS_SWAP_FROM),
			      PROBE_LOAD(args, MIGRATIONS_SWAP_TO));
	return 0;
}
