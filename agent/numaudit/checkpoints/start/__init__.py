"""Would a kubelet start with this state?"""
