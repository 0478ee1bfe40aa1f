// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* What the probes share that charge what a CPU did since its last event to the cgroup of the task going out. This
 * text is put before theirs, as probe.bpf.h is.
 *
 * Hook:  raw tracepoint sched_switch, where a switch within a cgroup is left alone and its interval goes on. The
 *        current task is the one going out, so what happened since the CPU's last event belongs to its cgroup.
 *        A read-out runs NAME_charge on each CPU, and so closes the interval of a task that never leaves.
 *        Raw tracepoints cgroup_notify_populated, just before the first task is in a cgroup, and
 *        cgroup_attach_task, after a task has moved: a task that moves itself ends its interval there.
 * Map:   cgroup_switch_cpu  what the probe knows of each CPU
 *
 * The root cgroup is left out: the idle task lives there, and a switch from it to a kernel thread is no cgroup
 * switch. A task that another one moves while it runs takes the open interval of its CPU along; so does one that
 * moves itself to where other tasks are already and must leave its CPU for it. One that moves itself every 5 ms and
 * shares its CPU with another cgroup loses 1 % of its time, and nothing where it has the CPU for itself.
 */
#define CGROUP_SWITCH_ROOT 1

struct cgroup_switch_cpu {
	u64 since; /* when the open interval began; 0 = not known yet */
	u64 runs; /* of the program, at switches and for readings */
	u64 task; /* process and thread id of the last one that was seen outside the root cgroup */
	u64 cgroup_id; /* where it was then */
	u64 cgroups; /* what the task that came in last points to; 0 = not known */
	u64 within; /* the cgroup of all tasks of the open interval; 0 = not known */
};
BPF_PERCPU_ARRAY(cgroup_switch_cpu, struct cgroup_switch_cpu, 1);

static __always_inline struct cgroup_switch_cpu *cgroup_switch_this_cpu(void)
{
	int first = 0;

	return cgroup_switch_cpu.lookup(&first);
}

/* The cgroup of the task that is on the CPU, remembered in case that the task moves itself. */
static __always_inline u64 cgroup_switch_current(struct cgroup_switch_cpu *cpu)
{
	u64 cgroup_id = bpf_get_current_cgroup_id();

	cpu->within = 0;
	if (cgroup_id != CGROUP_SWITCH_ROOT) {
		cpu->task = bpf_get_current_pid_tgid();
		cpu->cgroup_id = cgroup_id;
	}
	return cgroup_id;
}

/* At sched_switch, whose arguments are: was it preempted, the task going out, the one coming in. Tasks that point to
 * the same cgroups are in the same one. CGROUP_SWITCH_CGROUPS_OF_TASK says where struct task_struct points to them, in
 * bytes; 0 = not known, and no switch is within a cgroup.
 */
static __always_inline bool cgroup_switch_is_within(struct cgroup_switch_cpu *cpu, struct bpf_raw_tracepoint_args *ctx)
{
	u64 offset = PROBE_CONSTANT(CGROUP_SWITCH_CGROUPS_OF_TASK);
	u64 cgroups = 0;

	if (offset)
		bpf_probe_read_kernel(&cgroups, sizeof(cgroups), (void *)(ctx->args[2] + offset));
	if (cgroups && cgroups == cpu->cgroups) {
		if (!cpu->within)
			cpu->within = bpf_get_current_cgroup_id();
		return true;
	}
	cpu->cgroups = cgroups;
	return false;
}

/* The cgroup of the open interval at cgroup_attach_task, whose arguments are: cgroup, its path, the moved task, all threads or one. A task that
 * moved itself is in its new cgroup already, and the open interval belongs to the one where it was seen last; to none
 * (as that of the root cgroup) where it was not: then another task ran on this CPU since, or it comes from the root
 * cgroup, and idle time may be included.
 */
static __always_inline u64 cgroup_switch_before_move(struct cgroup_switch_cpu *cpu, struct bpf_raw_tracepoint_args *ctx)
{
	u64 cgroup_id = CGROUP_SWITCH_ROOT;
	u64 task = bpf_get_current_pid_tgid();

	if (ctx->args[2] != bpf_get_current_task())
		return cgroup_switch_current(cpu);
	if (cpu->within)
		cgroup_id = cpu->within;
	else if (cpu->task == task)
		cgroup_id = cpu->cgroup_id;
	cpu->cgroups = 0;
	cpu->within = 0;
	cpu->task = task;
	cpu->cgroup_id = bpf_get_current_cgroup_id();
	return cgroup_id;
}
