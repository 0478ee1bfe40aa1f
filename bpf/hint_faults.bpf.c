// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* hint_faults: from which node was memory used, and on which node is it? Samples that NUMA balancing takes.
 *
 * Hook:  kprobe on task_numa_fault(last_cpupid, mem_node, pages, flags), in the context of the task that used the
 *        memory; its arguments are in the registers, whose places the agent gives. Or fentry on the same function,
 *        which is given the arguments themselves.
 *        Raw tracepoint sched_skip_cpuset_numa, where the kernel has it: tasks that it does not sample, because
 *        their cpuset.mems is one node.
 * Maps:  hint_faults_count   {cgroup, CPU's node, memory's node, TNF_ flags} -> faults since load
 *        hint_faults_skipped cgroup -> scans left out since load
 * Cost:  one array and one per-CPU hash lookup for each hint fault.
 */
#define HINT_FAULTS_TRIAL (1U << 31) /* a flag that the kernel has not */

struct hint_faults_key {
	u64 cgroup_id;
	u16 cpu_node;
	u16 memory_node;
	u32 flags;
};
BPF_PERCPU_HASH(hint_faults_count, struct hint_faults_key, u64, 1);
BPF_PERCPU_HASH(hint_faults_skipped, u64, u64, 1);

static __always_inline void hint_faults_count_one(u16 memory_node, u32 flags)
{
	struct hint_faults_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.cpu_node = bpf_get_numa_node_id(),
		.memory_node = memory_node,
		.flags = flags,
	};
	u64 one = 1;
	u64 *count;

	if (!probe_is_watched(key.cgroup_id))
		return;
	count = hint_faults_count.lookup(&key);
	if (count)
		*count += 1;
	else if (hint_faults_count.update(&key, &one))
		probe_drop();
}

int hint_faults_at_kprobe(void *registers)
{
	hint_faults_count_one(PROBE_LOAD(registers, HINT_FAULTS_SECOND_REGISTER),
			      PROBE_LOAD(registers, HINT_FAULTS_FOURTH_REGISTER));
	return 0;
}

int hint_faults_at_fentry(u64 *arguments)
{
	hint_faults_count_one(arguments[1], arguments[3]);
	return 0;
}

/* Run on purpose and never hooked, so that the cost of counting can be measured on any host. */
int hint_faults_on_trial(void *ctx)
{
	hint_faults_count_one(0, HINT_FAULTS_TRIAL);
	return 0;
}

int hint_faults_on_skip(void *ctx)
{
	u64 cgroup_id = bpf_get_current_cgroup_id();
	u64 *count = hint_faults_skipped.lookup(&cgroup_id);
	u64 one = 1;

	if (count)
		*count += 1;
	else if (hint_faults_skipped.update(&cgroup_id, &one))
		probe_drop();
	return 0;
}
