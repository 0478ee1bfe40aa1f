// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* page_alloc: from which node were pages given, and to a task on which node?
 *
 * Hook:  tracepoint kmem:mm_page_alloc, in the context of the task that asks.
 * Maps:  page_alloc_bytes   {cgroup, CPU's node, page's node, order} -> bytes since load
 *        page_alloc_failed  cgroup -> allocations that got no page (pfn -1)
 *        page_alloc_node_of_block, filled by the agent: memory block -> node
 * Cost:  one array and one per-CPU hash lookup for each allocation.
 *
 * An allocation from an interrupt counts for the task that it interrupts: the kernel gives no way to know.
 */
#define PAGE_ALLOC_NODE_UNKNOWN 0xffff
#define PAGE_ALLOC_NO_PAGE (~0UL)

struct page_alloc_key {
	u64 cgroup_id;
	u16 cpu_node;
	u16 page_node;
	u32 order;
};
BPF_PERCPU_HASH(page_alloc_bytes, struct page_alloc_key, u64, 1);
BPF_PERCPU_HASH(page_alloc_failed, u64, u64, 1);
BPF_ARRAY(page_alloc_node_of_block, u16, 1);

static __always_inline void page_alloc_count_failure(u64 cgroup_id)
{
	u64 *count = page_alloc_failed.lookup(&cgroup_id);
	u64 one = 1;

	if (count)
		*count += 1;
	else if (page_alloc_failed.update(&cgroup_id, &one))
		probe_drop();
}

static __always_inline u16 page_alloc_node(u64 pfn)
{
	u32 block = pfn >> PROBE_CONSTANT(PAGE_ALLOC_BLOCK_SHIFT);
	u16 *node = page_alloc_node_of_block.lookup(&block);

	return node ? *node : PAGE_ALLOC_NODE_UNKNOWN;
}

int page_alloc_on_mm_page_alloc(void *args)
{
	u64 cgroup_id = bpf_get_current_cgroup_id();
	u64 pfn = PROBE_LOAD(args, PAGE_ALLOC_PFN);
	u32 order = PROBE_LOAD(args, PAGE_ALLOC_ORDER);
	u64 bytes = PROBE_CONSTANT(PAGE_ALLOC_PAGE_SIZE) << order;
	struct page_alloc_key key = {
		.cgroup_id = cgroup_id,
		.cpu_node = bpf_get_numa_node_id(),
		.order = order,
	};
	u64 *sum;

	if (pfn == PAGE_ALLOC_NO_PAGE) {
		page_alloc_count_failure(cgroup_id);
		return 0;
	}
	key.page_node = page_alloc_node(pfn);
	sum = page_alloc_bytes.lookup(&key);
	if (sum)
		*sum += bytes;
	else if (page_alloc_bytes.update(&key, &bytes))
		probe_drop();
	return 0;
}
