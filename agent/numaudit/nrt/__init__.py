"""A node as its scheduler should know it: annotations, and a whole NodeResourceTopology. Pure.

Source: github.com/k8stopologyawareschedwg/noderesourcetopology-api (v1alpha2), and the topology updater of
node-feature-discovery, whose zones these are.
"""
