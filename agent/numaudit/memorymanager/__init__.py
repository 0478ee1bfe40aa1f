"""The kubelet's static Memory Manager and Topology Manager as pure functions, in the kubelet's words.

The functions that other code may rely on are named in `api`.
"""
