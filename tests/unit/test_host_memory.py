"""Tensors on the host: what shares memory is moved once and comes back whole."""

import torch

from pcqc_gpu.host_memory import HostMemory


def test_views_of_one_storage_come_back_whole():
    whole, alone = torch.arange(6.0), torch.ones(3)
    host = HostMemory()
    for _ in range(2):  # the second time in the buffers of the first
        with host.holding([whole[:2], whole[2:], alone]):
            assert whole.untyped_storage().nbytes() == alone.untyped_storage().nbytes() == 0
        assert whole.tolist() == [0, 1, 2, 3, 4, 5]
        assert alone.tolist() == [1, 1, 1]
