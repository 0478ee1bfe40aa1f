// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* pmu: how often did a cgroup use near and far memory, as the processor counts it?
 *
 * Hook:  switches between cgroups (cgroup_switch.bpf.h, which says what is left out).
 * Maps:  pmu_sums    cgroup -> counts and times of each event since load, by CPU
 *        pmu_cpu     what the events of each CPU said last
 *        pmu_events  CPU x PMU_EVENTS + n -> the CPU's n-th event, opened by the agent
 * Forms: PMU_EVENTS = 2, 3, 4
 * Cost:  one reading of each event and one per-CPU hash lookup for each switch between cgroups.
 *
 * A cgroup that is not watched costs a reading too: where its interval ends another one's begins.
 */
struct pmu_counts {
	/* running < enabled: the kernel shared the counters with other groups of events */
	struct bpf_perf_event_value of[PMU_EVENTS];
};
BPF_PERCPU_HASH(pmu_sums, u64, struct pmu_counts, 1);

struct pmu_cpu {
	struct pmu_counts last;
};
BPF_PERCPU_ARRAY(pmu_cpu, struct pmu_cpu, 1);
BPF_PERF_ARRAY(pmu_events, 1);

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
	struct pmu_counts *sums = pmu_sums.lookup(&cgroup_id);
	struct pmu_counts first = {};

	if (sums) {
		pmu_add(sums, now, before);
		return;
	}
	pmu_add(&first, now, before);
	if (pmu_sums.update(&cgroup_id, &first))
		probe_drop();
}

static __always_inline struct pmu_cpu *pmu_this_cpu(void)
{
	int first = 0;

	return pmu_cpu.lookup(&first);
}

/* `since` of the state is 1 while an interval is open that began with what pmu_cpu says. Charging it to the root
 * cgroup drops it.
 */
static __always_inline void pmu_end_interval(struct cgroup_switch_cpu *state, struct pmu_cpu *cpu, u64 cgroup_id)
{
	struct pmu_counts now;
	bool was_open = state->since;

	state->since = pmu_read(&now);
	if (!state->since)
		return;
	if (was_open && cgroup_id != CGROUP_SWITCH_ROOT && probe_is_watched(cgroup_id))
		pmu_charge_to(cgroup_id, &now, &cpu->last);
	cpu->last = now;
}

int pmu_on_sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup_switch_cpu *state = cgroup_switch_this_cpu();
	struct pmu_cpu *cpu = pmu_this_cpu();

	if (state && cpu && !cgroup_switch_is_within(state, ctx)) {
		state->runs += 1;
		pmu_end_interval(state, cpu, cgroup_switch_current(state));
	}
	return 0;
}

int pmu_charge(void *ctx)
{
	struct cgroup_switch_cpu *state = cgroup_switch_this_cpu();
	struct pmu_cpu *cpu = pmu_this_cpu();

	if (state && cpu) {
		state->runs += 1;
		pmu_end_interval(state, cpu, cgroup_switch_current(state));
	}
	return 0;
}

/* Before the probe is hooked, so that what came before is charged to no cgroup. */
int pmu_restart(void *ctx)
{
	struct cgroup_switch_cpu *state = cgroup_switch_this_cpu();
	struct pmu_cpu *cpu = pmu_this_cpu();

	if (state && cpu) {
		state->cgroups = 0;
		state->within = 0;
		pmu_end_interval(state, cpu, CGROUP_SWITCH_ROOT);
	}
	return 0;
}

int pmu_on_attach_task(struct bpf_raw_tracepoint_args *ctx)
{
	struct cgroup_switch_cpu *state = cgroup_switch_this_cpu();
	struct pmu_cpu *cpu = pmu_this_cpu();

	if (state && cpu)
		pmu_end_interval(state, cpu, cgroup_switch_before_move(state, ctx));
	return 0;
}
