// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* pmu: how often did a cgroup use near and far memory, as the processor counts it?
 *
 * Hook:  switches between cgroups (cgroup_switch.bpf.h, which says what is left out)
 * Maps:  pmu_sums    {cgroup, node} -> counts and times of each event since load
 *        pmu_cpu     what the events of each CPU said last
 *        pmu_events  CPU x PMU_EVENTS + n -> the CPU's n-th event, opened by the agent
 * Cost:  one reading of each event and one per-CPU hash lookup for each switch between cgroups.
 *
 * A cgroup that is not watched costs a reading too: where its interval ends another one's begins.
 */
struct pmu_key {
	u64 cgroup_id;
	u64 node;
};

struct pmu_counts {
	/* running < enabled: the kernel shared the counters with other groups of events */
	struct bpf_perf_event_value of[PMU_EVENTS];
};
BPF_PERCPU_HASH(pmu_sums, struct pmu_key, struct pmu_counts, PMU_ENTRIES);
BPF_PERCPU_ARRAY(pmu_cpu, struct pmu_counts, 1);
BPF_PERF_ARRAY(pmu_events, PMU_SLOTS);

/* False where this CPU has no events, as before the agent has seen that it is online. */
static __always_inline bool pmu_read(struct pmu_counts *now)
{
	u32 first = bpf_get_smp_processor_id() * PMU_EVENTS;

#pragma unroll
	for (int n = 0; n < PMU_EVENTS; n++)
		if (pmu_events.perf_counter_value(first + n, &now->of[n], sizeof(now->of[n])))
			return false;
	return true;
}

static __always_inline void pmu_add(struct pmu_counts *sums, const struct pmu_counts *now,
				    const struct pmu_counts *before)
{
#pragma unroll
	for (int n = 0; n < PMU_EVENTS; n++) {
		sums->of[n].counter += now->of[n].counter - before->of[n].counter;
		sums->of[n].enabled += now->of[n].enabled - before->of[n].enabled;
		sums->of[n].running += now->of[n].running - before->of[n].running;
	}
}

static __always_inline void pmu_charge_to(u64 cgroup_id, const struct pmu_counts *now, const struct pmu_counts *before)
{
	struct pmu_key key = {
		.cgroup_id = cgroup_id,
		.node = bpf_get_numa_node_id(),
	};
	struct pmu_counts *sums = pmu_sums.lookup(&key);
	struct pmu_counts first = {};

	if (sums) {
		pmu_add(sums, now, before);
		return;
	}
	pmu_add(&first, now, before);
	if (pmu_sums.update(&key, &first))
		probe_drop(PMU_SLOT);
}

/* `since` of the state is 1 while an interval is open that began with what pmu_cpu says. Charging it to the root
 * cgroup drops it.
 */
static __always_inline void pmu_end_interval(struct cgroup_switch_cpu *cpu, u64 cgroup_id)
{
	int first = 0;
	struct pmu_counts *last = pmu_cpu.lookup(&first);
	struct pmu_counts now = {};
	bool was_open = cpu->since;

	if (!last)
		return;
	cpu->since = pmu_read(&now);
	if (was_open && cpu->since && cgroup_id != CGROUP_SWITCH_ROOT && probe_is_watched(cgroup_id))
		pmu_charge_to(cgroup_id, &now, last);
	*last = now;
}

int pmu_on_cgroup_switch(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu(PMU_SLOT);

	if (cpu) {
		cpu->switches += 1;
		pmu_end_interval(cpu, cgroup_switch_current(cpu));
	}
	return 0;
}

int pmu_charge(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu(PMU_SLOT);

	if (cpu) {
		cpu->charges += 1;
		pmu_end_interval(cpu, cgroup_switch_current(cpu));
	}
	return 0;
}

/* Before a CPU's event is switched on, so that what came before is charged to no cgroup. */
int pmu_restart(void *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu(PMU_SLOT);

	if (cpu)
		pmu_end_interval(cpu, CGROUP_SWITCH_ROOT);
	return 0;
}

int pmu_on_attach_task(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup_switch_cpu *cpu = cgroup_switch_this_cpu(PMU_SLOT);

	if (cpu)
		pmu_end_interval(cpu, cgroup_switch_before_move(cpu, ctx));
	return 0;
}
