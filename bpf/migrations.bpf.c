// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* migrations: who moved pages, and why? Which tasks did NUMA balancing move to another node?
 *
 * Hook:  tracepoint migrate:mm_migrate_pages, in the context of the task that moves pages, which need not be
 *        their owner. It carries no nodes.
 *        Tracepoints sched:sched_move_numa, sched_stick_numa and sched_swap_numa, in the context of the task that
 *        is to be moved. A swap moves a second task, of which the kernel tells no cgroup.
 * Maps:  migrations_pages   {initiator's cgroup, enum migrate_reason} -> base pages moved and not moved since load
 *        migrations_tasks   {cgroup, event, from node, to node} -> how often since load
 *        migrations_dropped events that found their map full
 * Cost:  one per-CPU hash look-up for each call of migrate_pages(), which moves many pages.
 */
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
BPF_PERCPU_HASH(migrations_pages, struct migrations_pages_key, struct migrations_pages_value, MIGRATIONS_PAGE_ENTRIES);

struct migrations_tasks_key {
	u64 cgroup_id;
	u32 event;
	u16 from_node;
	u16 to_node;
};
BPF_PERCPU_HASH(migrations_tasks, struct migrations_tasks_key, u64, MIGRATIONS_TASK_ENTRIES);
BPF_PERCPU_ARRAY(migrations_dropped, u64, 1);

static __always_inline void migrations_drop(void)
{
	int first = 0;
	u64 *dropped = migrations_dropped.lookup(&first);

	if (dropped)
		*dropped += 1;
}

int migrations_on_mm_migrate_pages(struct tracepoint__migrate__mm_migrate_pages *args)
{
	struct migrations_pages_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.reason = args->reason,
	};
	struct migrations_pages_value added = {
		.succeeded = args->succeeded,
		.failed = args->failed,
	};
	struct migrations_pages_value *sum = migrations_pages.lookup(&key);

	if (sum) {
		sum->succeeded += added.succeeded;
		sum->failed += added.failed;
	} else if (migrations_pages.update(&key, &added)) {
		migrations_drop();
	}
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
		migrations_drop();
}

int migrations_on_move(struct tracepoint__sched__sched_move_numa *args)
{
	migrations_count_task(MIGRATIONS_MOVED, args->src_nid, args->dst_nid);
	return 0;
}

int migrations_on_stick(struct tracepoint__sched__sched_stick_numa *args)
{
	migrations_count_task(MIGRATIONS_STUCK, args->src_nid, args->dst_nid);
	return 0;
}

int migrations_on_swap(struct tracepoint__sched__sched_swap_numa *args)
{
	migrations_count_task(MIGRATIONS_SWAPPED, args->src_nid, args->dst_nid);
	return 0;
}
