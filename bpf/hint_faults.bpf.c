// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* hint_faults: from which node was memory used, and on which node is it? Samples that NUMA balancing takes.
 *
 * Hook:  kprobe on task_numa_fault(last_cpupid, mem_node, pages, flags), in the context of the task that used the
 *        memory; its arguments are in the registers, whose places the agent gives. Or fentry on the same function,
 *        which is given the arguments themselves.
 *        Raw tracepoint sched_skip_cpuset_numa, where the kernel has it: tasks that it does not sample, because
 *        their cpuset.mems is one node.
 *        Raw tracepoint sched_skip_vma_numa, where the kernel has it: mappings that a scan pass leaves out.
 * Maps:  hint_faults_count   {cgroup, CPU's node, memory's node, TNF_ flags} -> faults since load, and their pages
 *        hint_faults_passes  {cgroup, process, its image, scan pass, CPU's node, memory's node, TNF_ flags} -> pages;
 *                            with the flag HINT_FAULTS_LEFT_OUT: bytes that the pass left out
 *        hint_faults_skipped cgroup -> scans left out since load
 * Cost:  two array, one per-CPU hash and one hash lookup and two or three reads of kernel memory for each hint fault.
 *
 * An image is what one execve(2) loaded: each has an mm of its own, whose passes begin at 0. task->self_exec_id counts
 * them (fs/exec.c, begin_new_exec), and tells them apart where the address of the mm would come again.
 *
 * The kernel goes through a process's memory in passes, which it counts in mm->numa_scan_seq, and each page that it
 * takes the access right from faults once. So in one pass each page that was used counts once. A scan that has come to
 * the end of the memory sets mm->numa_scan_offset to 0 and counts its pass as done before the pages fault that it has
 * just marked: a fault at offset 0 is of the pass before (kernel/sched/fair.c, task_numa_work, reset_ptenuma_scan).
 */
#define HINT_FAULTS_TRIAL (1U << 31) /* flags that the kernel has not */
#define HINT_FAULTS_LEFT_OUT (1U << 30)
/* enum numa_vmaskip_reason, from the first to the last of those (with PID_INACTIVE between them) whose mappings might
 * have been sampled, and were not in this pass. Other mappings never are, or were before in the pass.
 */
#define HINT_FAULTS_SCAN_DELAY 3
#define HINT_FAULTS_IGNORE_PID 5

struct hint_faults_key {
	u64 cgroup_id;
	u16 cpu_node;
	u16 memory_node;
	u32 flags;
};
struct hint_faults_sum {
	u64 faults;
	u64 pages;
};
struct hint_faults_pass {
	u64 cgroup_id;
	u32 process;
	u32 image;
	s32 pass; /* -1 = before the process was scanned: pages that it got from its parent */
	u16 cpu_node;
	u16 memory_node;
	u32 flags;
	u32 unused;
};
BPF_PERCPU_HASH(hint_faults_count, struct hint_faults_key, struct hint_faults_sum, 1);
BPF_HASH(hint_faults_passes, struct hint_faults_pass, u64, 1);
BPF_PERCPU_HASH(hint_faults_skipped, u64, u64, 1);

static __always_inline void hint_faults_count_one(const struct hint_faults_key *key, u64 pages)
{
	struct hint_faults_sum one = { .faults = 1, .pages = pages };
	struct hint_faults_sum *sum = hint_faults_count.lookup(key);

	if (sum) {
		sum->faults += 1;
		sum->pages += pages;
	} else if (hint_faults_count.update((struct hint_faults_key *)key, &one)) {
		probe_drop();
	}
}

/* Where the structures have what is read here, in bytes; HINT_FAULTS_PASS_OF_MM 0 = not known. */
static __always_inline int hint_faults_find_image(struct hint_faults_pass *key)
{
	u64 exec_of_task = PROBE_CONSTANT(HINT_FAULTS_EXEC_OF_TASK);

	key->process = bpf_get_current_pid_tgid() >> 32;
	return bpf_probe_read_kernel(&key->image, sizeof(key->image), (void *)(bpf_get_current_task() + exec_of_task));
}

static __always_inline void hint_faults_add(struct hint_faults_pass *key, u64 amount)
{
	u64 *sum = hint_faults_passes.lookup(key);

	if (sum)
		__sync_fetch_and_add(sum, amount);
	else if (hint_faults_passes.update(key, &amount))
		probe_drop();
}

static __always_inline void hint_faults_add_to_pass(const struct hint_faults_key *kind, u64 pages)
{
	u64 mm_of_task = PROBE_CONSTANT(HINT_FAULTS_MM_OF_TASK);
	u64 pass_of_mm = PROBE_CONSTANT(HINT_FAULTS_PASS_OF_MM);
	u64 offset_of_mm = PROBE_CONSTANT(HINT_FAULTS_OFFSET_OF_MM);
	struct hint_faults_pass key = {
		.cgroup_id = kind->cgroup_id,
		.cpu_node = kind->cpu_node,
		.memory_node = kind->memory_node,
		.flags = kind->flags,
	};
	u64 mm = 0, scanned_to = 0;

	if (!pass_of_mm || hint_faults_find_image(&key))
		return;
	if (bpf_probe_read_kernel(&mm, sizeof(mm), (void *)(bpf_get_current_task() + mm_of_task)) || !mm)
		return;
	if (bpf_probe_read_kernel(&key.pass, sizeof(key.pass), (void *)(mm + pass_of_mm)) ||
	    bpf_probe_read_kernel(&scanned_to, sizeof(scanned_to), (void *)(mm + offset_of_mm)))
		return;
	if (!scanned_to)
		key.pass -= 1;
	hint_faults_add(&key, pages);
}

static __always_inline void hint_faults_take(u16 memory_node, u32 pages, u32 flags)
{
	struct hint_faults_key key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.cpu_node = bpf_get_numa_node_id(),
		.memory_node = memory_node,
		.flags = flags,
	};

	if (!probe_is_watched(key.cgroup_id))
		return;
	hint_faults_count_one(&key, pages);
	hint_faults_add_to_pass(&key, pages);
}

int hint_faults_at_kprobe(void *registers)
{
	hint_faults_take(PROBE_LOAD(registers, HINT_FAULTS_SECOND_REGISTER),
			 PROBE_LOAD(registers, HINT_FAULTS_THIRD_REGISTER),
			 PROBE_LOAD(registers, HINT_FAULTS_FOURTH_REGISTER));
	return 0;
}

int hint_faults_at_fentry(u64 *arguments)
{
	hint_faults_take(arguments[1], arguments[2], arguments[3]);
	return 0;
}

/* Loaded by benchmarks alone, which run it on purpose: so the cost of counting is measured on any host. */
int hint_faults_on_trial(void *ctx)
{
	hint_faults_take(0, 1, HINT_FAULTS_TRIAL);
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

/* sched_skip_vma_numa(mm, vma, reason), in the context of the task that scans (kernel/sched/fair.c, since Linux 6.7). */
int hint_faults_on_left_out(u64 *arguments)
{
	u64 pass_of_mm = PROBE_CONSTANT(HINT_FAULTS_PASS_OF_MM);
	u64 start_of_vma = PROBE_CONSTANT(HINT_FAULTS_START_OF_VMA);
	u64 end_of_vma = PROBE_CONSTANT(HINT_FAULTS_END_OF_VMA);
	struct hint_faults_pass key = {
		.cgroup_id = bpf_get_current_cgroup_id(),
		.flags = HINT_FAULTS_LEFT_OUT,
	};
	u64 start = 0, end = 0;
	u32 reason = arguments[2];

	if (!PROBE_CONSTANT(HINT_FAULTS_STATE_OF_VMA) || !pass_of_mm)
		return 0; /* without vma->numab_state no pass leaves a mapping out */
	if (reason < HINT_FAULTS_SCAN_DELAY || reason > HINT_FAULTS_IGNORE_PID)
		return 0;
	if (!probe_is_watched(key.cgroup_id) || hint_faults_find_image(&key))
		return 0;
	if (bpf_probe_read_kernel(&key.pass, sizeof(key.pass), (void *)(arguments[0] + pass_of_mm)) ||
	    bpf_probe_read_kernel(&start, sizeof(start), (void *)(arguments[1] + start_of_vma)) ||
	    bpf_probe_read_kernel(&end, sizeof(end), (void *)(arguments[1] + end_of_vma)))
		return 0;
	hint_faults_add(&key, end - start);
	return 0;
}
